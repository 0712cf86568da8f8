"""The two figures promised: no false alarm in a simulated day, no freeze missed above the stated threshold."""

from __future__ import annotations

import random

import pytest

from tests.rouse.clocks_by_hand import ClocksByHand
from torpor import rouse
from torpor.rouse import Kind
from torpor.rouse.detectors.pulse import Pulse, PulseStopped

DAY_SECONDS = 24 * 3600
FREEZES = 1000
LIMITS = rouse.Limits()
THRESHOLD_SECONDS = LIMITS.tick_seconds + LIMITS.freeze_seconds


class Day:
    """A machine under load: late ticks, collector's pauses, slewing that changes its mind, clocks read a little apart."""

    def __init__(self, seed: int) -> None:
        """Drawn from the seed alone."""
        self.draw = random.Random(seed)  # noqa: S311 - a simulation
        self.clocks = ClocksByHand()
        self.passed_seconds = 0.0
        self.slew = 0.0

    def tick(self) -> None:
        """A tick and what made it late: at most a little below the limit."""
        draw = self.draw
        late = draw.expovariate(100.0)
        if draw.random() < 0.05:
            late += draw.uniform(0.0, 0.4)  # load
        if draw.random() < 0.001:
            late += draw.uniform(0.4, 1.9)  # a collector's pause in a large heap, a long hold of the interpreter lock
        if draw.random() < 0.01:
            self.slew = draw.uniform(-500e-6, 500e-6)
        seconds = min(LIMITS.tick_seconds + late, THRESHOLD_SECONDS - 0.001)
        self.clocks.pass_time(seconds)
        self.clocks.step(seconds * self.slew + draw.gauss(0.0, 20e-6))
        self.passed_seconds += seconds


@pytest.mark.slow
def test_no_false_alarm_in_a_day() -> None:
    """86,400 seconds of load, pauses and slewing: the incarnation is the same at the end."""
    day = Day(seed=1)
    watcher, born_in, ticks = day.clocks.watcher(), rouse.incarnation(), 0
    while day.passed_seconds < DAY_SECONDS:
        day.tick()
        assert watcher.check() is None, f"tick {ticks}"
        ticks += 1
    assert rouse.incarnation() == born_in
    assert ticks > 0.9 * DAY_SECONDS / (LIMITS.tick_seconds + 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("with_pulse", [False, True])
def test_no_freeze_above_the_threshold_is_missed(*, with_pulse: bool) -> None:
    """1,000 freezes of 3.0 s to an hour, each beginning anywhere in a tick, under the same load."""
    day = Day(seed=2)
    pulse = Pulse(day.clocks.clocks, LIMITS.tick_seconds)
    detectors = list(rouse.default_detectors(LIMITS))
    if with_pulse:
        detectors[3] = PulseStopped(LIMITS.tick_seconds, LIMITS.freeze_seconds, pulse)
    watcher = rouse.Watcher(LIMITS, clocks=day.clocks.clocks, detectors=detectors, registry=rouse.Registry())
    missed, alarms = list[float](), 0
    for _ in range(FREEZES):
        for _ in range(day.draw.randrange(4)):
            day.tick()
            pulse.beat()
            alarms += watcher.check() is not None
        day.clocks.pass_time(day.draw.uniform(0.0, LIMITS.tick_seconds))
        pulse.beat()
        frozen = THRESHOLD_SECONDS + day.draw.choice((0.0, day.draw.expovariate(1.0), day.draw.uniform(0.0, 3600.0)))
        day.clocks.pass_time(frozen)
        if day.draw.random() < 0.5:
            pulse.beat()  # its thread may come first
        rousal = watcher.check()
        if rousal is None or rousal.kind is not Kind.FROZEN:
            missed.append(frozen)
    assert (missed, alarms) == ([], 0)


def test_a_loop_that_blocks_itself_is_not_frozen() -> None:
    """The pulse went on; and where it did not, the freeze is as long as the gap."""
    clocks = ClocksByHand()
    pulse = Pulse(clocks.clocks, LIMITS.tick_seconds)
    detectors = [PulseStopped(LIMITS.tick_seconds, LIMITS.freeze_seconds, pulse)]
    watcher = rouse.Watcher(LIMITS, clocks=clocks.clocks, detectors=detectors, registry=rouse.Registry())
    for _ in range(120):
        clocks.pass_time(0.5)
        pulse.beat()
    assert watcher.check() is None
    clocks.pass_time(60.0)
    rousal = watcher.check()
    assert rousal is not None
    assert (rousal.kind, rousal.away_seconds) == (Kind.FROZEN, 59.0)
    assert watcher.check() is None


def test_several_readers_share_a_pulse() -> None:
    """Each looks at what lies between its own looks: who looks often takes nothing from who looks seldom."""
    clocks = ClocksByHand()
    pulse = Pulse(clocks.clocks, LIMITS.tick_seconds)
    stopped = PulseStopped(LIMITS.tick_seconds, LIMITS.freeze_seconds, pulse)
    often, seldom = (
        rouse.Watcher(LIMITS, clocks=clocks.clocks, detectors=[stopped], registry=rouse.Registry()) for _ in range(2)
    )
    for step in (0.5, 0.5, 60.0, 0.5, 0.5):
        clocks.pass_time(step)
        pulse.beat()
        rousal = often.check()
        assert (rousal is not None) is (step == 60.0)
    late = seldom.check()
    assert late is not None
    assert late.away_seconds == 59.0
    assert seldom.check() is None
