"""A page that the hypervisor writes: its counter changes whenever this machine is loaded from a saved state.

The layout is the kernel's `struct vmclock_abi` (include/uapi/linux/vmclock-abi.h), little endian.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ..event import Finding, Kind

if TYPE_CHECKING:
    from .clocks import Reading

DEVICE = "/dev/vmclock0"
MAGIC = 0x4B4C4356
GENERATION_PRESENT = 1 << 8
SIZE = 0x70
_ATTEMPTS = 100
_AT_SEQUENCE, _AT_DISRUPTION, _AT_FLAGS, _AT_GENERATION = 0x0C, 0x10, 0x18, 0x68


class _Seen(NamedTuple):
    disruption: int
    generation: int


class Vmclock:
    """Whether the hypervisor changed its count of saved states this machine was loaded from, or its mark of disruptions.

    Sees: each wake of a virtual machine from a saved state, before the first instruction after it; a live migration.
    Cannot see: anything where the hypervisor has no vmclock, or has it without `vm_generation_counter` (refused here).
    Needs: read permission on /dev/vmclock0 (root, unless a udev rule says otherwise); Linux 6.13, a recent hypervisor.
    Cost: four reads of memory a look, 2 us; no system call.
    Fallback: kmsg, the host's word.
    """

    name: ClassVar[str] = "vmclock"

    def __init__(self, path: str = DEVICE) -> None:
        """Map the page.

        Raises:
            OSError: no such device, not ours to read, or it does not count generations.
        """
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                self._page = mmap.mmap(opened, mmap.PAGESIZE, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            except ValueError as error:  # a file shorter than a page
                raise OSError(errno.EINVAL, f"{path} is no vmclock: {error}") from error
        finally:
            os.close(opened)
        if self._number("<I", 0) != MAGIC or not self._number("<Q", _AT_FLAGS) & GENERATION_PRESENT:
            self._page.close()
            raise OSError(errno.ENOTSUP, f"{path} counts no generations")
        self._seen = self._look()

    def __call__(self, _before: Reading, _now: Reading) -> Finding | None:
        """Compare the generation, then the mark of disruptions: a migration changes that one alone."""
        before, self._seen = self._seen, self._look()
        confirms = ("kmsg", "host file", "host socket")
        if self._seen.generation != before.generation:
            evidence = f"vmclock's generation went from {before.generation} to {self._seen.generation}"
            return Finding(Kind.COPIED, evidence, certain=True, by=self.name, confirms=confirms)
        if self._seen.disruption != before.disruption:
            evidence = f"vmclock's disruption marker went from {before.disruption} to {self._seen.disruption}"
            return Finding(Kind.MOVED, evidence, by=self.name)
        return None

    def close(self) -> None:
        """Let go of the page."""
        self._page.close()

    def _number(self, form: str, at: int) -> int:
        return int(struct.unpack_from(form, self._page, at)[0])

    def _look(self) -> _Seen:
        """Read while the hypervisor does not write: its sequence is even, and the same before and after."""
        seen = _Seen(0, 0)
        for _ in range(_ATTEMPTS):
            sequence = self._number("<I", _AT_SEQUENCE)
            seen = _Seen(self._number("<Q", _AT_DISRUPTION), self._number("<Q", _AT_GENERATION))
            if not sequence % 2 and sequence == self._number("<I", _AT_SEQUENCE):
                break
        return seen  # written to all the time: then what was read differs from before, and that is told
