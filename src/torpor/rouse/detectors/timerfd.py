"""A timer that the kernel cancels when somebody sets the wall clock."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, ClassVar

from ..event import Finding, Kind
from ..incarnation import PerProcess
from .clocks import MICROSECONDS

if TYPE_CHECKING:
    from .clocks import Reading

_CLOCK_REALTIME = 0
_TIMER_ABSTIME, _TIMER_CANCEL_ON_SET = 1, 2  # <sys/timerfd.h>
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC are these
_NEVER = 2**33  # seconds since the epoch: in the year 2242


class Timerfd:
    """Whether the kernel cancelled a timer because the wall clock was set (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).

    Sees: every step of the wall clock at once, however small, and two that cancel out; some kernels also on resume.
    Cannot see: by how much (the clocks tell that), slewing, and a virtual machine whose clock nobody set after the wake.
    Needs: no root, Linux. Python 3.13, or ctypes on an older one.
    Cost: one system call a look, 1 us; it wakes the watcher for a step.
    Fallback: `stepped`, at the next look, for steps above its limit.
    """

    name: ClassVar[str] = "timerfd"

    def __init__(self) -> None:
        """Set the timer.

        Raises:
            OSError: no such timer here.
        """
        if sys.platform != "linux":
            raise OSError(errno.ENOSYS, "timerfd is Linux's")
        try:
            self._timer = PerProcess(_set_timer)  # the cancellation is told once, to whoever reads first
        except ImportError as error:
            raise OSError(errno.ENOSYS, f"this Python has no ctypes: {error}") from error

    def fileno(self) -> int:
        """What becomes readable when the clock is set."""
        return self._timer.get()

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find a timer that was cancelled."""
        try:
            os.read(self._timer.get(), 8)
        except OSError as error:
            if error.errno != errno.ECANCELED:
                return None
        else:
            return None
        passed = (now.monotonic_at if now.boottime_at is None else now.boottime_at) - (
            before.monotonic_at if before.boottime_at is None else before.boottime_at
        )
        seconds = (now.wall_at - before.wall_at - passed) / MICROSECONDS
        evidence = (
            f"the kernel cancelled a timer because the wall clock was set (by {seconds:+.3f} s since the last look)"
        )
        return Finding(Kind.CLOCK_STEP, evidence, by=self.name, confirms=("stepped", "suspended"))

    def close(self) -> None:
        """Let go of the timer."""
        os.close(self._timer.get())


def _set_timer() -> int:
    if sys.version_info >= (3, 13):
        timer = os.timerfd_create(_CLOCK_REALTIME, flags=_FLAGS)
        os.timerfd_settime(timer, flags=_TIMER_ABSTIME | _TIMER_CANCEL_ON_SET, initial=_NEVER)
        return timer
    return _set_timer_by_hand()


def _set_timer_by_hand() -> int:
    import ctypes  # a Python may lack it, and most programs never need it

    def checked(answer: int) -> int:
        if answer < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return answer

    libc = ctypes.CDLL(None, use_errno=True)
    timer = checked(libc.timerfd_create(_CLOCK_REALTIME, _FLAGS))
    at = (ctypes.c_long * 4)(
        0, 0, _NEVER, 0
    )  # struct itimerspec: interval, then the moment; seconds and nanoseconds each
    checked(libc.timerfd_settime(timer, _TIMER_ABSTIME | _TIMER_CANCEL_ON_SET, ctypes.byref(at), None))
    return timer
