"""Random lives of a machine: no alarm below the limits, none missed above them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rouse.clocks_by_hand import ClocksByHand
from torpor import rouse

TICK, FREEZE, SUSPEND, STEP = 1.0, 2.0, 0.1, 2.0
SLEW_PER_SECOND = 500e-6
HOUR = 3600.0


@dataclass(frozen=True)
class Tick:
    """What happens between two checks, in seconds, all below the limits."""

    late: float
    slew: float
    jitter: float
    doze: float

    def happen(self, clocks: ClocksByHand) -> None:
        """Busy or idle, slewed, read a little apart."""
        passed = TICK + self.late
        clocks.pass_time(passed)
        clocks.step(self.slew * SLEW_PER_SECOND * passed + self.jitter)
        clocks.suspend(self.doze)


def seconds(least: float, most: float) -> st.SearchStrategy[float]:
    """Whole microseconds, as clocks count."""
    return st.integers(round(least * 1e6), round(most * 1e6)).map(lambda us: us / 1e6)


ticks = st.builds(
    Tick,
    late=seconds(-TICK, FREEZE - 0.001),
    slew=st.floats(-1, 1),
    jitter=seconds(-STEP * 0.9, STEP * 0.9),
    doze=seconds(0, SUSPEND - 0.001),
)
kinds_above = st.one_of(
    st.tuples(st.just(rouse.Kind.SLEPT), seconds(SUSPEND, HOUR)),
    st.tuples(st.just(rouse.Kind.FROZEN), seconds(TICK + FREEZE, HOUR)),
    st.tuples(st.just(rouse.Kind.CLOCK_STEP), st.one_of(seconds(STEP, HOUR), seconds(-HOUR, -STEP))),
    st.tuples(st.just(rouse.Kind.COPIED), st.just(0.0)),
    st.tuples(st.just(rouse.Kind.MOVED), seconds(-1000, -0.001)),
)


def bring_about(clocks: ClocksByHand, kind: rouse.Kind, amount: float) -> None:
    """Let one thing happen."""
    match kind:
        case rouse.Kind.SLEPT:
            clocks.suspend(amount)
        case rouse.Kind.FROZEN:
            clocks.pass_time(amount)
        case rouse.Kind.CLOCK_STEP:
            clocks.step(amount)
        case rouse.Kind.COPIED:
            clocks.process = clocks.process._replace(pid=clocks.process.pid + 1)
        case _:
            clocks.monotonic_at += round(amount * 1e6)


@given(st.lists(ticks, max_size=40))
def test_nothing_below_the_limits_is_a_rousal(life: list[Tick]) -> None:
    """A busy interpreter, slewing, jitter and dozes: the incarnation stays."""
    clocks = ClocksByHand()
    watcher, before = clocks.watcher(), rouse.incarnation()
    for tick in life:
        tick.happen(clocks)
        assert watcher.check() is None
    assert rouse.incarnation() == before


@given(
    st.lists(st.tuples(seconds(-TICK, 0), st.floats(-1, 1)), max_size=10), st.lists(kinds_above, min_size=1, max_size=5)
)
def test_nothing_above_the_limits_is_missed(
    quiet: list[tuple[float, float]], loud: list[tuple[rouse.Kind, float]]
) -> None:
    """Each thing is found by the next check, once, under its name, with its length."""
    clocks = ClocksByHand()
    watcher = clocks.watcher()
    for kind, amount in loud:
        for late, slew in quiet:
            Tick(late, slew, 0.0, 0.0).happen(clocks)
            assert watcher.check() is None
        before = rouse.incarnation()
        bring_about(clocks, kind, amount)
        rousal = watcher.check()
        assert rousal is not None
        assert rousal.kind is kind
        assert (rousal.before, rousal.after) == (before, rouse.incarnation())
        assert rousal.before != rousal.after
        away = amount - TICK if kind is rouse.Kind.FROZEN else max(0.0, amount)
        assert rousal.away_seconds == pytest.approx(away, abs=1e-5)
        assert watcher.check() is None


@given(seconds(SUSPEND, HOUR), seconds(TICK + FREEZE, HOUR), seconds(STEP, HOUR))
def test_several_things_at_once_are_one_event(slept: float, frozen: float, stepped: float) -> None:
    """The gravest names it, the lengths add up, each detector's evidence is kept (two notices, one event)."""
    clocks = ClocksByHand()
    watcher = clocks.watcher()
    clocks.suspend(slept)
    clocks.pass_time(frozen)
    clocks.step(stepped)
    clocks.process = clocks.process._replace(start=2000)
    rousal = watcher.check()
    assert rousal is not None
    assert rousal.kind is rouse.Kind.COPIED
    assert rousal.away_seconds == pytest.approx(slept + frozen - TICK + stepped, abs=1e-5)
    assert len(rousal.evidence) == 4
    assert "started at tick 2000" in rousal.evidence[0]


def test_a_lid_closed_for_two_hours() -> None:
    """C06: wall and boottime moved on, monotonic stood still."""
    clocks = ClocksByHand()
    watcher = clocks.watcher()
    clocks.pass_time(0.5)
    clocks.suspend(2 * HOUR)
    rousal = watcher.check()
    assert rousal is not None
    assert (rousal.kind, rousal.away_seconds) == (rouse.Kind.SLEPT, 2 * HOUR)
    assert rousal.evidence == ("boottime ran 7200.000 s ahead of monotonic (limit 0.1 s)",)
    assert rousal.noticed_at == clocks.wall_at


def test_without_boottime_a_closed_lid_is_a_step_forward() -> None:
    """Named by what can be seen; the time away is the same."""
    clocks = ClocksByHand(has_boottime=False)
    watcher = clocks.watcher()
    clocks.suspend(2 * HOUR)
    rousal = watcher.check()
    assert rousal is not None
    assert (rousal.kind, rousal.away_seconds) == (rouse.Kind.CLOCK_STEP, 2 * HOUR)


def test_boottime_going_back_is_another_kernel() -> None:
    """Even if monotonic happens to be ahead there."""
    clocks = ClocksByHand()
    watcher = clocks.watcher()
    clocks.pass_time(1.0)
    clocks.boottime_at = 1
    rousal = watcher.check()
    assert rousal is not None
    assert rousal.kind is rouse.Kind.MOVED


def test_being_stopped_while_reading_the_clocks_is_no_sleep() -> None:
    """Five seconds pass between two of the questions: the reading is taken again, and only a freeze is seen."""
    clocks = ClocksByHand()
    freeze_in_the_middle: list[float] = []

    def boottime() -> int | None:
        if freeze_in_the_middle:
            clocks.pass_time(freeze_in_the_middle.pop())
        return clocks.boottime_at

    torn = rouse.Clocks(clocks.clocks.wall, clocks.clocks.monotonic, boottime, clocks.clocks.process)
    watcher = rouse.Watcher(clocks=torn)
    freeze_in_the_middle.append(5.0)
    rousal = watcher.check()
    assert rousal is not None
    assert (rousal.kind, rousal.away_seconds, len(rousal.evidence)) == (rouse.Kind.FROZEN, 4.0, 1)


def test_a_machine_too_busy_to_read_its_clocks_takes_the_closest_reading() -> None:
    """It does not try for ever."""
    clocks = ClocksByHand()
    pauses = [0.01, 0.009, 0.002, 0.008, 0.007]

    def wall() -> int:
        clocks.pass_time(pauses.pop(0))
        return clocks.wall_at

    busy = rouse.Clocks(wall, clocks.clocks.monotonic, clocks.clocks.boottime, clocks.clocks.process)
    begun = clocks.monotonic_at
    assert busy.read().monotonic_at == begun + 19_000
    assert not pauses


@pytest.mark.parametrize("name", ["tick_seconds", "freeze_seconds", "suspend_seconds", "step_seconds"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_limits_that_mean_nothing_are_refused(name: str, value: float) -> None:
    """They would fire always or never."""
    with pytest.raises(ValueError, match=name):
        rouse.Limits(**{name: value})


def test_the_limits_are_parameters() -> None:
    """A slower tick makes the same gap ordinary; a stricter limit makes it a freeze."""
    for limits, expected in (({"tick_seconds": 10.0}, None), ({"freeze_seconds": 0.5}, rouse.Kind.FROZEN)):
        clocks = ClocksByHand()
        watcher = clocks.watcher(**limits)
        clocks.pass_time(2.5)
        rousal = watcher.check()
        assert (rousal and rousal.kind) == expected


def test_checking_more_often_does_no_harm() -> None:
    """The gate looks between two ticks; slewing does not add up over an hour of it."""
    clocks = ClocksByHand()
    watcher = clocks.watcher()
    for slewed in repeat(1 + SLEW_PER_SECOND, 36_000):
        clocks.pass_time(0.1)
        clocks.step(0.1 * (slewed - 1))
        assert watcher.check() is None
