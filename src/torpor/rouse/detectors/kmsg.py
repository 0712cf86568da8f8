"""The kernel's log: one line, written when the kernel was told by the hypervisor that it is a copy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from ..event import Finding, Kind
from ..incarnation import PerProcess

if TYPE_CHECKING:
    from .clocks import Reading

LOG = "/dev/kmsg"
LINE = b"crng reseeded due to virtual machine fork"
_MOST_LINES = 1000  # in one look; the rest is read by the next
_MOST_BYTES = 8192  # the kernel gives one whole record to each read


class Kmsg:
    """Whether the kernel said that its random generator was reseeded because the machine is a copy.

    Sees: each wake of a virtual machine from a saved state, if the hypervisor has VMGENID and the kernel its driver.
    Cannot see: a copy made without VMGENID (QEMU's `microvm`, a cloud kernel without the driver), lines lost to a full log.
    Needs: read permission on /dev/kmsg: root, CAP_SYSLOG, or kernel.dmesg_restrict=0 and a readable device.
    Cost: one system call a look, 2 us, and one for each line of the log; it wakes the watcher for a line.
    Fallback: vmclock, the host's word.
    """

    name: ClassVar[str] = "kmsg"

    def __init__(self, path: str = LOG) -> None:
        """Read from the end of the log.

        Raises:
            OSError: the log may not be read.
        """
        self._path = path
        self._log = PerProcess(self._open)  # a copy of the process would take the lines away from the original

    def _open(self) -> int:
        opened = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.lseek(opened, 0, os.SEEK_END)
        except OSError:
            if self._path == LOG:
                os.close(opened)
                raise
        return opened

    def fileno(self) -> int:
        """What becomes readable when the kernel writes a line."""
        return self._log.get()

    def __call__(self, _before: Reading, _now: Reading) -> Finding | None:
        """Read what is new; one finding, however many such lines there are."""
        line: bytes | None = None
        for _ in range(_MOST_LINES):
            try:
                record = os.read(self._log.get(), _MOST_BYTES)
            except BrokenPipeError:  # lines were lost; the next read goes on with the oldest there is
                continue
            except OSError:  # nothing more for now
                break
            if not record:
                break
            line = next(filter(_of_a_copy, record.splitlines()), line)
        if line is None:
            return None
        evidence = f"the kernel's log says: {line.partition(b';')[2].decode('ascii', 'replace')}"
        confirms = ("vmclock", "host file", "host socket")
        return Finding(Kind.COPIED, evidence, certain=True, by=self.name, confirms=confirms)

    def close(self) -> None:
        """Let go of the log."""
        os.close(self._log.get())


def _of_a_copy(line: bytes) -> bool:
    """Whether the kernel itself wrote this (facility 0): anyone who may write to the log could write the words."""
    priority, _, _ = line.partition(b",")
    return line.endswith(LINE) and priority.isdigit() and int(priority) < 8  # noqa: PLR2004 - eight levels, facility 0
