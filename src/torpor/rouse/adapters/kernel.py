"""The kernel's generator: `os.urandom`, `secrets`, `uuid4`, and what a program that is started anew seeds itself from.

A kernel that was not told that its machine is a copy (no VMGENID, as on QEMU's `microvm` or under a kernel without the
driver) gives both copies the same bytes. So it is fed, which anybody may do, and told to begin anew, which only root may: for
others the bytes count when the kernel next reseeds itself, within a minute.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("os",)
DEVICE = "/dev/urandom"
RNDRESEEDCRNG = 0x5207
"""Linux >= 4.17, CAP_SYS_ADMIN; <linux/random.h>, random(4)."""


def classes() -> tuple[type, ...]:
    """Nothing: there is one generator per machine."""
    return ()


def wake(waking: Waking, _found: list[Any]) -> None:
    """Mix fresh bytes in, and reseed from them at once where that is allowed."""
    with suppress(OSError, ImportError):  # a sandbox without the device, or another system
        import fcntl

        opened = os.open(DEVICE, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(opened, waking.seed(64))
            fcntl.ioctl(opened, RNDRESEEDCRNG)
        finally:
            os.close(opened)
