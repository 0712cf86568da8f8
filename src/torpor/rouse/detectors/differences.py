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

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..event import Finding, Kind
from .clocks import MICROSECONDS

if TYPE_CHECKING:
    from ..incarnation import Process
    from .clocks import Detector, Limits, Reading


@dataclass(frozen=True, slots=True)
class ProcessCopied:
    """Whether the process is another one than at the last look, though its memory says it is the same.

    Sees: fork, a raw clone past every hook, a process brought back from a checkpoint, in another pid namespace too.
    Cannot see: a copy of the whole machine: the process has the same number and start time there.
    Needs: no root. Start time and namespace need Linux with /proc.
    Cost: 10 us a look; `incarnation()` itself sees the copy in every call, in half a microsecond.
    Fallback: the number of the process alone.
    """

    name: ClassVar[str] = "process"

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Compare number, start time and namespace."""
        if not now.process.differs_from(before.process):
            return None
        evidence = f"the memory of {_named(before.process)} goes on in {_named(now.process)}"
        return Finding(Kind.COPIED, evidence, by=self.name)


@dataclass(frozen=True, slots=True)
class Moved:
    """Whether a clock that never goes back under one kernel did.

    Sees: memory that goes on under another kernel, whose clocks began later: a migrated container, a restored checkpoint.
    Cannot see: another kernel whose clocks are ahead of the old one's: that looks like a freeze or a suspend.
    Needs: no root, any system.
    Cost: nothing beyond reading the clocks, 1 us a look.
    Fallback: none.
    """

    name: ClassVar[str] = "moved"

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find monotonic or boottime before where it was."""
        if not _went_back(before, now):
            return None
        return Finding(
            Kind.MOVED,
            f"monotonic went from {before.monotonic_at} to {now.monotonic_at} us, "
            f"boottime from {before.boottime_at} to {now.boottime_at}: another kernel's clocks",
            max(0.0, (now.wall_at - before.wall_at) / MICROSECONDS),
            by=self.name,
        )


@dataclass(frozen=True, slots=True)
class Suspended:
    """Whether the machine slept: boottime ran on while monotonic stood still.

    Sees: a suspend of the machine from the inside (a closed lid, S3, S0ix), to the microsecond, even a short one.
    Cannot see: a virtual machine that was paused or saved from the outside: all clocks of the guest stand still.
    Needs: no root. A clock that counts suspended time: Linux CLOCK_BOOTTIME.
    Cost: nothing beyond reading the clocks, 1 us a look.
    Fallback: without that clock a suspend shows as a step of the wall clock, if it is long enough.
    """

    suspend_seconds: float
    name: ClassVar[str] = "suspended"

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find a suspend of at least `suspend_seconds`."""
        if _went_back(before, now):
            return None
        seconds = _suspended(before, now) / MICROSECONDS
        if seconds < self.suspend_seconds:
            return None
        evidence = f"boottime ran {seconds:.3f} s ahead of monotonic (limit {self.suspend_seconds:g} s)"
        return Finding(Kind.SLEPT, evidence, seconds, by=self.name)


@dataclass(frozen=True, slots=True)
class Frozen:
    """Whether a check came much later than its tick: we did not run, or nobody let us.

    Sees: SIGSTOP, a cgroup freezer, a debugger, a paused container, a machine too crowded to run us.
    Cannot see: less than tick + freeze seconds (3 s unless told otherwise); a virtual machine whose clocks stood still.
    Needs: no root, any system; somebody who checks at least every tick.
    Cost: nothing beyond reading the clocks, 1 us a look.
    Fallback: none. Code that keeps the interpreter's lock for that long looks the same, and is told as frozen.
    """

    tick_seconds: float
    freeze_seconds: float
    name: ClassVar[str] = "frozen"

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find a check that is at least `freeze_seconds` later than its tick."""
        seconds = (now.monotonic_at - before.monotonic_at) / MICROSECONDS - self.tick_seconds
        if _went_back(before, now) or seconds < self.freeze_seconds:
            return None
        limit = f"limit {self.freeze_seconds:g} s"
        evidence = f"a check came {seconds:.3f} s later than its tick of {self.tick_seconds:g} s ({limit})"
        return Finding(Kind.FROZEN, evidence, seconds, by=self.name)


@dataclass(frozen=True, slots=True)
class Stepped:
    """Whether the wall clock moved by more or less than time did.

    Sees: the wall clock set by hand, by NTP after a wake, by a host that rights its guest; either way.
    Cannot see: a step below the limit (2 s); slewing, which is no step; two steps between two looks that cancel out.
    Needs: no root, any system.
    Cost: nothing beyond reading the clocks, 1 us a look.
    Fallback: none. `timerfd` also sees what is too small for this one.
    """

    step_seconds: float
    name: ClassVar[str] = "stepped"

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find a step of at least `step_seconds`, either way. Forward it counts as time away: it may have been a pause."""
        if _went_back(before, now):
            return None
        passed = now.monotonic_at - before.monotonic_at + _suspended(before, now)
        seconds = (now.wall_at - before.wall_at - passed) / MICROSECONDS
        if abs(seconds) < self.step_seconds:
            return None
        evidence = f"the wall clock was set by {seconds:+.3f} s (limit {self.step_seconds:g} s)"
        return Finding(Kind.CLOCK_STEP, evidence, max(0.0, seconds), by=self.name)


def default_detectors(limits: Limits) -> tuple[Detector, ...]:
    """What needs nothing but this process and its clocks, best first."""
    return (
        ProcessCopied(),
        Moved(),
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
