"""Where the time comes from, one reading of it all, and from where on a difference means something."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

from ..incarnation import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..event import Finding

MICROSECONDS = 1_000_000
"""In a second."""
_READ_ATTEMPTS = 5
_CLOSE_TOGETHER = 1_000  # microseconds between the first and the last clock of one reading: far below every limit


def _wall() -> int:
    return time.time_ns() // 1000


def _monotonic() -> int:
    return time.monotonic_ns() // 1000


def _boottime() -> int | None:
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return None if clock is None else time.clock_gettime_ns(clock) // 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """All clocks at one moment, in microseconds; only `wall_at` counts from the epoch."""

    wall_at: int
    monotonic_at: int
    boottime_at: int | None
    process: Process


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where the time comes from, in microseconds. A test passes its own and moves them by hand."""

    wall: Callable[[], int] = _wall
    monotonic: Callable[[], int] = _monotonic
    boottime: Callable[[], int | None] = _boottime
    process: Callable[[], Process] = Process.current

    def read(self) -> Reading:
        """Ask all clocks at one moment.

        A process stopped between two of the questions would see a difference between two clocks that is none. So the
        monotonic clock is asked first and last, and the reading is taken again while the two are far apart.
        """
        process = self.process()
        closest = self._bracket()
        for _ in range(_READ_ATTEMPTS - 1):
            if closest[0] <= _CLOSE_TOGETHER:
                break
            closest = min(closest, self._bracket(), key=lambda bracket: bracket[0])
        _, monotonic_at, boottime_at, wall_at = closest
        return Reading(wall_at=wall_at, monotonic_at=monotonic_at, boottime_at=boottime_at, process=process)

    def _bracket(self) -> tuple[int, int, int | None, int]:
        first = self.monotonic()
        boottime_at, wall_at = self.boottime(), self.wall()
        last = self.monotonic()
        return last - first, first, boottime_at, wall_at


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a difference means something, in seconds. Below: a busy interpreter, slewing, jitter; no event.

    A freeze is found for certain if it is at least `tick_seconds + freeze_seconds` long, wherever in a tick it begins.
    """

    tick_seconds: float = 1.0
    """How long between two checks is expected. More checks than that do no harm."""
    freeze_seconds: float = 2.0
    """How late beyond the tick a check may come. Above a collector's pause or a long hold of the interpreter lock."""
    suspend_seconds: float = 0.1
    """Suspend is exact, and even a short one is time in which a copy may have been made."""
    step_seconds: float = 2.0
    """More than a leap second."""

    def __post_init__(self) -> None:
        """Refuse limits that would always or never fire."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < float("inf"):
                msg = f"{field.name} must be a positive number of seconds, not {value!r}"
                raise ValueError(msg)


class Detector(Protocol):
    """Looks at two readings in a row, `before` and `now`. May keep state of its own; raises nothing.

    One that need not wait for the next tick has a `fileno()`: it is looked at as soon as that can be read.
    The docstring of each says, a paragraph each: `Sees:`, `Cannot see:`, `Needs:`, `Cost:` and `Fallback:`.
    """

    def __call__(self, before: Reading, now: Reading, /) -> Finding | None:
        """What happened in between, or None."""
