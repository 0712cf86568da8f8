"""The watcher: callbacks in order, fail closed, from any thread; a real SIGSTOP; blocks that must be uninterrupted."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from torpor import rouse
from torpor.rouse.incarnation import end

TICKING = Path(__file__).with_name("ticking.py")
STOPPED_SECONDS = 0.6


def test_callbacks_run_in_order_and_find_the_new_life() -> None:
    """Each is given the event; the incarnation has changed before the first."""
    clocks = ClocksByHand()
    watcher, calls = clocks.watcher(), list[tuple[str, rouse.Rousal, rouse.Incarnation]]()

    def note(name: str, rousal: rouse.Rousal) -> None:
        calls.append((name, rousal, rouse.incarnation()))

    for name in ("reseed", "drop", "open"):
        watcher.on_rousal(partial(note, name))
    clocks.suspend(60.0)
    rousal = watcher.check()
    assert rousal is not None
    assert calls == [(name, rousal, rousal.after) for name in ("reseed", "drop", "open")]
    assert watcher.check() is None
    assert len(calls) == 3


def test_a_failing_callback_closes_the_watcher() -> None:
    """Those after it do not run, and from then on every check raises."""
    clocks = ClocksByHand()
    watcher, calls = clocks.watcher(), list[str]()
    watcher.on_rousal(lambda _: calls.append("close the gate"))

    @watcher.on_rousal
    def reseed(_rousal: rouse.Rousal) -> None:
        msg = "no entropy"
        raise OSError(msg)

    watcher.on_rousal(lambda _: calls.append("open the gate"))
    before = rouse.incarnation()
    clocks.suspend(60.0)
    with pytest.raises(
        rouse.RousalFailed, match=r"(?s)reseed failed .*slept, 60.000 s away.*no entropy.*hint: stop"
    ) as failed:
        watcher.check()
    assert isinstance(failed.value.__cause__, OSError)
    assert calls == ["close the gate"]
    assert rouse.incarnation() != before
    with pytest.raises(rouse.RousalFailed, match="no entropy"):
        watcher.check()
    assert calls == ["close the gate"]


def test_an_interrupt_in_a_callback_closes_the_watcher_too() -> None:
    """It goes through as it is; what it cut off was not done."""
    clocks = ClocksByHand()
    watcher = clocks.watcher()

    @watcher.on_rousal
    def interrupted(_rousal: rouse.Rousal) -> None:
        raise KeyboardInterrupt

    clocks.suspend(60.0)
    with pytest.raises(KeyboardInterrupt):
        watcher.check()
    with pytest.raises(rouse.RousalFailed):
        watcher.check()


def test_a_callback_may_look_again() -> None:
    """It finds nothing new and does not hang."""
    clocks = ClocksByHand()
    watcher, found = clocks.watcher(), list[rouse.Rousal | None]()
    watcher.on_rousal(lambda _: found.append(watcher.check()))
    clocks.suspend(60.0)
    assert watcher.check() is not None
    assert found == [None]


def test_a_gap_is_told_once_and_only_after_its_callbacks() -> None:
    """The gate's thread looks while the tick's thread is still calling back: it waits, and is told of no second gap."""
    clocks = ClocksByHand()
    watcher = clocks.watcher()
    entered, leave, gate_done = threading.Event(), threading.Event(), threading.Event()
    told: dict[str, rouse.Rousal | None] = {}

    @watcher.on_rousal
    def slow(_rousal: rouse.Rousal) -> None:
        entered.set()
        assert leave.wait(PATIENCE_SECONDS)

    def look(name: str) -> None:
        told[name] = watcher.check()
        if name == "gate":
            gate_done.set()

    clocks.suspend(60.0)
    tick, gate = (threading.Thread(target=look, args=(name,)) for name in ("tick", "gate"))
    tick.start()
    assert entered.wait(PATIENCE_SECONDS)
    gate.start()
    assert not gate_done.wait(0.1)
    leave.set()
    tick.join()
    gate.join()
    assert told["tick"] is not None
    assert told["gate"] is None


def test_a_failing_detector_loses_no_gap() -> None:
    """The reading counts only once it was compared: the next check finds what this one could not."""
    clocks = ClocksByHand()
    failures = [OSError("device gone")]

    def failing(_before: rouse.Reading, _now: rouse.Reading) -> None:
        if failures:
            raise failures.pop()

    watcher = rouse.Watcher(clocks=clocks.clocks, detectors=[failing, *rouse.default_detectors(rouse.Limits())])
    clocks.suspend(60.0)
    with pytest.raises(OSError, match="device gone"):
        watcher.check()
    rousal = watcher.check()
    assert rousal is not None
    assert rousal.kind is rouse.Kind.SLEPT


def test_a_life_ended_by_somebody_else_is_told_as_a_copy() -> None:
    """No clock says why, so the gravest is assumed."""
    clocks = ClocksByHand()
    watcher, before = clocks.watcher(), rouse.incarnation()
    after = end(before)
    rousal = watcher.check()
    assert rousal is not None
    assert (rousal.kind, rousal.before, rousal.after) == (rouse.Kind.COPIED, before, after)
    assert rouse.incarnation() == after


def test_time_away_after_somebody_else_ended_the_life_ends_it_again() -> None:
    """What was born between the two must not survive the second."""
    clocks = ClocksByHand()
    watcher, before = clocks.watcher(), rouse.incarnation()
    between = end(before)
    clocks.suspend(60.0)
    rousal = watcher.check()
    assert rousal is not None
    assert rousal.kind is rouse.Kind.SLEPT
    assert rousal.before == before
    assert rousal.after not in (before, between)


def test_an_uninterrupted_block_says_nothing() -> None:
    """It gives the incarnation it lives in."""
    clocks = ClocksByHand()
    with clocks.watcher().uninterrupted() as here, rouse.uninterrupted() as same:
        clocks.pass_time(1.0)
    assert here == same == rouse.incarnation()


def test_an_interrupted_block_raises_at_its_end() -> None:
    """With a watcher the clocks are looked at there and then, and the reason is told."""
    clocks = ClocksByHand()
    with pytest.raises(rouse.Interrupted, match=r"(?s)slept, boottime ran 60.000 s.*hint: ") as raised:  # noqa: SIM117 - the inner one raises
        with clocks.watcher().uninterrupted() as here:
            clocks.suspend(60.0)
    assert raised.value.born_in == here
    assert raised.value.now == rouse.incarnation() != here


def test_a_block_without_a_watcher_sees_what_others_found() -> None:
    """Only the incarnation is compared."""
    with pytest.raises(rouse.Interrupted), rouse.uninterrupted() as here:
        end(here)


def test_what_happened_before_the_block_does_not_count() -> None:
    """It is told to the callbacks instead."""
    clocks = ClocksByHand()
    watcher, told = clocks.watcher(), list[rouse.Rousal]()
    watcher.on_rousal(told.append)
    clocks.suspend(60.0)
    with watcher.uninterrupted():
        clocks.pass_time(1.0)
    assert [rousal.kind for rousal in told] == [rouse.Kind.SLEPT]


def test_an_exception_of_the_block_goes_first() -> None:
    """The block failed anyway."""
    own = KeyError("of the block")
    with pytest.raises(KeyError, match="of the block"), rouse.uninterrupted():  # noqa: PT012 - both belong in the block
        end(rouse.incarnation())
        raise own


@pytest.mark.slow
def test_a_stopped_process_knows_when_it_goes_on() -> None:
    """SIGSTOP for longer than the limit, SIGCONT: one rousal with the time away (C05)."""
    with subprocess.Popen([sys.executable, TICKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        born_in = json.loads(child.stdout.readline())["ready"]
        child.send_signal(signal.SIGSTOP)
        stopped = os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert stopped is not None
        assert stopped.si_status == signal.SIGSTOP
        never, never_written = os.pipe()
        assert select.select([never], [], [], STOPPED_SECONDS)[0] == []  # the time it is stopped for
        child.send_signal(signal.SIGCONT)
        rousal = {"away_seconds": 0.0, "before": born_in, "after": born_in}
        while rousal["away_seconds"] < STOPPED_SECONDS - 0.1:  # on a crowded machine a short one may come before it
            assert select.select([child.stdout], [], [], PATIENCE_SECONDS)[0]
            previous, rousal = rousal, json.loads(child.stdout.readline())
            assert rousal["before"] == previous["after"]
        os.close(never)
        os.close(never_written)
        child.stdin.close()
    assert child.returncode == 0
    assert rousal["kind"] == "frozen"
    assert rousal["after"] == rousal["now"] != rousal["before"]
