"""How a wake shows: each detector compares two readings of the same clocks and says what it saw, or nothing.

Between two readings the wall clock moves by the sum of three parts that do not overlap:

    wall  =  monotonic  +  suspended  +  stepped
    suspended = boottime - monotonic   the machine slept: monotonic stood still, boottime did not
    stepped   = the rest               somebody set the wall clock
    overdue   = monotonic - tick       we were due to look again earlier: frozen, or kept from running

On Linux slewing (NTP) bends all three clocks alike, so `suspended` and `stepped` are exact but for the time that passes
between asking the first clock and the last; `Clocks.read` keeps that small. Where only the wall clock is slewed the error per
tick is 500 ppm, a thousand times below the limits. Each detector looks at one interval, so slewing never adds up.

Where there is no boottime clock a suspend shows as a forward step of the wall clock, and is reported as that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

from .event import Finding, Kind
from .incarnation import Process

if TYPE_CHECKING:
    from collections.abc import Callable

_MICROSECONDS = 1_000_000
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
    """Looks at two readings in a row, `before` and `now`. May keep state of its own; raises nothing."""

    def __call__(self, before: Reading, now: Reading, /) -> Finding | None:
        """What happened in between, or None."""


def copied_process(before: Reading, now: Reading) -> Finding | None:
    """The process is another one than at the last look, though its memory says it is the same.

    Also finds a process that was brought back from a checkpoint under its old number: its start time differs.
    """
    if not now.process.differs_from(before.process):
        return None
    return Finding(Kind.COPIED, f"the memory of {_named(before.process)} goes on in {_named(now.process)}")


def moved(before: Reading, now: Reading) -> Finding | None:
    """A clock that never goes back under one kernel did."""
    if not _went_back(before, now):
        return None
    return Finding(
        Kind.MOVED,
        f"monotonic went from {before.monotonic_at} to {now.monotonic_at} us, "
        f"boottime from {before.boottime_at} to {now.boottime_at}: another kernel's clocks",
        max(0.0, (now.wall_at - before.wall_at) / _MICROSECONDS),
    )


@dataclass(frozen=True, slots=True)
class Suspended:
    """The machine slept: boottime ran on while monotonic stood still."""

    suspend_seconds: float

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find a suspend of at least `suspend_seconds`."""
        if _went_back(before, now):
            return None
        seconds = _suspended(before, now) / _MICROSECONDS
        if seconds < self.suspend_seconds:
            return None
        evidence = f"boottime ran {seconds:.3f} s ahead of monotonic (limit {self.suspend_seconds:g} s)"
        return Finding(Kind.SLEPT, evidence, seconds)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A check came much later than its tick: we did not run, or nobody let us."""

    tick_seconds: float
    freeze_seconds: float

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find a check that is at least `freeze_seconds` later than its tick."""
        seconds = (now.monotonic_at - before.monotonic_at) / _MICROSECONDS - self.tick_seconds
        if _went_back(before, now) or seconds < self.freeze_seconds:
            return None
        limit = f"limit {self.freeze_seconds:g} s"
        evidence = f"a check came {seconds:.3f} s later than its tick of {self.tick_seconds:g} s ({limit})"
        return Finding(Kind.FROZEN, evidence, seconds)


@dataclass(frozen=True, slots=True)
class Stepped:
    """The wall clock moved by more or less than time did."""

    step_seconds: float

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find a step of at least `step_seconds`, either way. Forward it counts as time away: it may have been a pause."""
        if _went_back(before, now):
            return None
        passed = now.monotonic_at - before.monotonic_at + _suspended(before, now)
        seconds = (now.wall_at - before.wall_at - passed) / _MICROSECONDS
        if abs(seconds) < self.step_seconds:
            return None
        evidence = f"the wall clock was set by {seconds:+.3f} s (limit {self.step_seconds:g} s)"
        return Finding(Kind.CLOCK_STEP, evidence, max(0.0, seconds))


def default_detectors(limits: Limits) -> tuple[Detector, ...]:
    """Every detector of this room, best first."""
    return (
        copied_process,
        moved,
        Suspended(limits.suspend_seconds),
        Frozen(limits.tick_seconds, limits.freeze_seconds),
        Stepped(limits.step_seconds),
    )


def _went_back(before: Reading, now: Reading) -> bool:
    """Then no difference between two clocks means anything."""
    if now.monotonic_at < before.monotonic_at:
        return True
    return now.boottime_at is not None and before.boottime_at is not None and now.boottime_at < before.boottime_at


def _suspended(before: Reading, now: Reading) -> int:
    """Microseconds."""
    if now.boottime_at is None or before.boottime_at is None:
        return 0
    return (now.boottime_at - before.boottime_at) - (now.monotonic_at - before.monotonic_at)


def _named(process: Process) -> str:
    parts = [f"process {process.pid}"]
    if process.start is not None:
        parts.append(f"started at tick {process.start}")
    if process.namespace is not None:
        parts.append(f"in {process.namespace}")
    return " ".join(parts)
