"""Who is told, in which phase, for which kinds; the gate; one event, however many notice it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from torpor import rouse
from torpor.rouse import Kind, Phase
from torpor.rouse.incarnation import end


def made(kind: Kind = Kind.COPIED, *, certain: bool = False) -> rouse.Rousal:
    """An event by hand."""
    now = rouse.incarnation()
    return rouse.Rousal(kind, 1.0, ("by hand",), now, now, 0, certain)


def fail(_rousal: rouse.Rousal) -> None:
    """A callback that cannot do its part."""
    raise OSError("no network")


def test_phases_run_in_their_order_and_callbacks_in_theirs() -> None:
    """However they were registered."""
    registry, calls = rouse.Registry(), list[tuple[Phase, int]]()
    for number in range(2):
        for phase in sorted(Phase, reverse=True):
            registry.on_rousal(lambda _, call=(phase, number): calls.append(call), phase=phase)
    registry.tell(made())
    assert calls == [(phase, number) for phase in Phase for number in range(2)]
    assert [phase.name for phase in Phase] == [
        "CLOSE_GATE", "RESEED", "TIME", "CONNECTIONS", "AUTHORITY", "SCHEDULES", "OPEN_GATE"
    ]  # fmt: skip


def test_it_is_a_call_and_a_decorator_with_and_without_arguments() -> None:
    """Each gives something that still is the function and can be taken back."""
    registry, calls = rouse.Registry(), list[str]()

    @registry.on_rousal
    def bare(_rousal: rouse.Rousal) -> None:
        calls.append("bare")

    @registry.on_rousal(phase=Phase.RESEED)
    def phased(_rousal: rouse.Rousal) -> None:
        calls.append("phased")

    called = registry.on_rousal(lambda _: calls.append("called"), phase=Phase.TIME)
    assert (bare.phase, phased.phase, called.phase) == (Phase.AUTHORITY, Phase.RESEED, Phase.TIME)
    registry.tell(made())
    bare.take_back()
    bare.take_back()
    registry.tell(made())
    bare(made())
    assert calls == ["phased", "called", "bare", "phased", "called", "bare"]
    assert "phased in RESEED" in repr(phased)


def test_what_cannot_be_called_is_refused() -> None:
    """When it is registered: at the first rousal it would shut the gate."""
    registry = rouse.Registry()
    anything: Any = 5
    with pytest.raises(TypeError, match="5 cannot be called"):
        registry.on_rousal(anything)
    registry.tell(made())


def test_a_coroutine_function_is_refused() -> None:
    """Nobody would wait for it, and the gate would open too early."""

    async def later(_rousal: rouse.Rousal) -> None: ...

    with pytest.raises(TypeError, match="coroutine"):
        rouse.Registry().on_rousal(later)


@pytest.mark.parametrize(
    ("kinds", "phase", "kind", "certain", "called"),
    [
        (None, Phase.AUTHORITY, Kind.CLOCK_STEP, True, True),
        ({Kind.COPIED}, Phase.RESEED, Kind.COPIED, True, True),
        ({Kind.COPIED}, Phase.RESEED, Kind.FROZEN, False, True),
        ({Kind.COPIED}, Phase.CONNECTIONS, Kind.SLEPT, False, True),
        ({Kind.COPIED}, Phase.RESEED, Kind.SLEPT, True, False),
        ({Kind.SLEPT}, Phase.SCHEDULES, Kind.COPIED, False, True),
        ({Kind.SLEPT}, Phase.SCHEDULES, Kind.COPIED, True, True),
        ({Kind.SLEPT}, Phase.SCHEDULES, Kind.FROZEN, True, True),
        ({Kind.SLEPT}, Phase.SCHEDULES, Kind.CLOCK_STEP, True, False),
        ({Kind.COPIED}, Phase.RESEED, Kind.ROLLED_BACK, True, True),
        ({Kind.COPIED}, Phase.RESEED, Kind.FROZEN, True, False),
        ({Kind.SLEPT}, Phase.CONNECTIONS, Kind.COPIED, False, False),
        ({Kind.CLOCK_STEP}, Phase.TIME, Kind.FROZEN, False, False),
    ],
)
def test_what_is_unknown_is_taken_for_a_copy_or_for_sleep(
    kinds: set[Kind] | None, phase: Phase, kind: Kind, *, certain: bool, called: bool
) -> None:
    """For a copy by randomness and connections, for sleep by schedules; not once somebody outside has said what it was."""
    registry, calls = rouse.Registry(), list[rouse.Rousal]()
    registry.on_rousal(calls.append, phase=phase, kinds=kinds)
    registry.tell(made(kind, certain=certain))
    assert bool(calls) is called


def test_a_failing_callback_keeps_the_gate_closed_until_it_is_mended() -> None:
    """Later phases do not run; every check of every watcher raises; a second event waits and is told too."""
    clocks, registry, calls = ClocksByHand(), rouse.Registry(), list[str]()
    first, second = (rouse.Watcher(clocks=clocks.clocks, registry=registry) for _ in range(2))
    broken = [True]

    @registry.on_rousal(phase=Phase.CONNECTIONS)
    def drop(rousal: rouse.Rousal) -> None:
        if broken:
            raise OSError("no network")
        calls.append(rousal.kind)

    registry.on_rousal(lambda _: calls.append("opened"), phase=Phase.OPEN_GATE)
    clocks.suspend(60.0)
    with pytest.raises(rouse.RousalFailed, match="drop failed in CONNECTIONS after a rousal"):
        first.check()
    clocks.pass_time(60.0)
    for ask in (first.check, second.check, registry.pass_gate, registry.mend, second.check):
        with pytest.raises(rouse.RousalFailed):
            ask()
    assert calls == []
    broken.clear()
    registry.mend()
    assert calls == ["slept", "opened", "frozen", "opened"]
    assert first.check() is None
    assert registry.pass_gate() == rouse.incarnation()


class Panic(BaseException):
    """What a library in Rust raises."""


@pytest.mark.parametrize("error", [Panic(), SystemExit(1), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_whatever_a_callback_raises_is_a_failure(error: BaseException) -> None:
    """It comes from the callback, not from who runs it: the registry says so and can be mended."""
    registry, raises = rouse.Registry(), [error]

    @registry.on_rousal
    def fails(_rousal: rouse.Rousal) -> None:
        if raises:
            raise raises.pop()

    with pytest.raises(rouse.RousalFailed, match=f"fails failed in AUTHORITY .*{type(error).__name__}") as failed:
        registry.tell(made())
    assert failed.value.__cause__ is error
    registry.mend()
    assert registry.is_open


def test_only_in_the_main_thread_an_interrupt_is_a_persons() -> None:
    """In any other it is what the callback raised."""
    registry, errors = rouse.Registry(), list[BaseException]()

    @registry.on_rousal
    def fails(_rousal: rouse.Rousal) -> None:
        raise KeyboardInterrupt

    def tell() -> None:
        try:
            registry.tell(made())
        except BaseException as error:  # noqa: BLE001 - what it is, is the question
            errors.append(error)

    telling = threading.Thread(target=tell)
    telling.start()
    telling.join(PATIENCE_SECONDS)
    assert [type(error) for error in errors] == [rouse.RousalFailed]
    with pytest.raises(KeyboardInterrupt):
        registry.mend()


def test_taking_the_callback_back_mends_too() -> None:
    """What needs no mending does nothing."""
    registry = rouse.Registry()
    registry.mend()
    bad = registry.on_rousal(fail)
    with pytest.raises(rouse.RousalFailed):
        registry.tell(made())
    bad.take_back()
    registry.mend()
    registry.sound()


def test_the_gate_is_closed_while_the_phases_run() -> None:
    """For a callback it is closed; another thread waits until they are over."""
    registry, passed = rouse.Registry(), list[rouse.Incarnation]()
    asking, done = threading.Event(), threading.Event()

    def ask() -> None:
        asking.set()
        passed.append(registry.pass_gate())
        done.set()

    @registry.on_rousal
    def inside(_rousal: rouse.Rousal) -> None:
        with pytest.raises(rouse.GateClosed, match="phases of a rousal"):
            registry.pass_gate()
        threading.Thread(target=ask).start()
        assert asking.wait(PATIENCE_SECONDS)
        assert not done.wait(0.05)

    registry.tell(made())
    assert done.wait(PATIENCE_SECONDS)
    assert passed == [rouse.incarnation()]


def test_two_watchers_notice_one_event_and_it_is_told_once() -> None:
    """The life ends once; both return the rousal; what comes after it is found by whoever looks first."""
    clocks, registry, told = ClocksByHand(), rouse.Registry(), list[rouse.Rousal]()
    first, second = (rouse.Watcher(clocks=clocks.clocks, registry=registry) for _ in range(2))
    registry.on_rousal(told.append)
    clocks.suspend(60.0)
    one = first.check()
    assert second.check() is one
    assert (second.check(), first.check()) == (None, None)
    clocks.pass_time(60.0)
    two = second.check()
    assert first.check() is two
    assert told == [one, two]
    assert two is not None
    assert two.after == rouse.incarnation()


def test_two_events_missed_by_a_slow_watcher_end_where_we_are() -> None:
    """It walks along what was told, and finds what nobody has told yet."""
    clocks, registry, told = ClocksByHand(), rouse.Registry(), list[rouse.Rousal]()
    quick, slow = (rouse.Watcher(clocks=clocks.clocks, registry=registry) for _ in range(2))
    registry.on_rousal(told.append)
    for _ in range(2):
        clocks.suspend(60.0)
        quick.check()
    clocks.suspend(7.0)
    rousal = slow.check()
    assert rousal is not None
    assert rousal.away_seconds == 7.0
    assert quick.check() is rousal
    assert len(told) == 3


def test_an_event_inside_a_callback_is_told_after_the_present_one() -> None:
    """Phases do not run inside phases."""
    clocks, registry, calls = ClocksByHand(), rouse.Registry(), list[tuple[str, Kind]]()
    watcher = rouse.Watcher(clocks=clocks.clocks, registry=registry)

    @registry.on_rousal(phase=Phase.RESEED)
    def sleep_again(rousal: rouse.Rousal) -> None:
        calls.append(("reseed", rousal.kind))
        if rousal.kind is Kind.SLEPT:
            clocks.pass_time(60.0)
            watcher.check()

    registry.on_rousal(lambda rousal: calls.append(("open", rousal.kind)), phase=Phase.OPEN_GATE)
    clocks.suspend(60.0)
    watcher.check()
    assert calls == [
        ("reseed", Kind.SLEPT), ("open", Kind.SLEPT), ("reseed", Kind.FROZEN), ("open", Kind.FROZEN)
    ]  # fmt: skip


def test_who_only_notices_leaves_the_callbacks_to_the_next_who_looks() -> None:
    """The life is over and the gate closed at once; nobody who looks or passes finds it open before they ran."""
    for go_on in ("check", "pass_gate", "mend"):
        registry, hand, calls = rouse.Registry(), ClocksByHand(), list[rouse.Rousal]()
        registry.on_rousal(calls.append)
        watchers = [rouse.Watcher(clocks=hand.clocks, registry=registry) for _ in range(2)]
        life = rouse.incarnation()
        hand.suspend(60)
        noticed = watchers[0].notice()
        assert noticed is not None
        assert (calls, registry.is_open, rouse.incarnation() == life) == ([], False, False)
        assert watchers[1].notice() == noticed, "it is the same event, and still nobody told of it"
        assert calls == []
        {"check": watchers[1].check, "pass_gate": registry.pass_gate, "mend": registry.mend}[go_on]()
        assert (calls, registry.is_open) == ([noticed], True)


def test_who_only_notices_hears_of_a_callback_that_failed() -> None:
    """As everybody does who looks."""
    registry, hand = rouse.Registry(), ClocksByHand()
    registry.on_rousal(fail)
    watcher = rouse.Watcher(clocks=hand.clocks, registry=registry)
    hand.suspend(60)
    assert watcher.notice() is not None
    with pytest.raises(rouse.RousalFailed):
        watcher.check()
    with pytest.raises(rouse.RousalFailed):
        watcher.notice()


def test_nobody_waits_for_callbacks_to_register_or_to_take_back() -> None:
    """Whoever ends while one hangs can let go of its own; what was taken back is not called any more."""
    registry, hangs, leave, calls = rouse.Registry(), threading.Event(), threading.Event(), list[str]()

    def hanging(_rousal: rouse.Rousal) -> None:
        hangs.set()
        leave.wait(PATIENCE_SECONDS)

    registry.on_rousal(hanging)
    later = registry.on_rousal(lambda _: calls.append("taken back"))
    telling = threading.Thread(target=registry.tell, args=[made()])
    telling.start()
    try:
        assert hangs.wait(PATIENCE_SECONDS)
        ending = threading.Thread(target=later.take_back, daemon=True)
        ending.start()
        ending.join(PATIENCE_SECONDS / 4)
        assert not ending.is_alive()
        assert registry.calling.endswith("hanging in AUTHORITY")
    finally:
        leave.set()
        telling.join(PATIENCE_SECONDS)
    assert (calls, registry.calling) == ([], "")


def test_a_watcher_tells_the_process_unless_it_is_given_another() -> None:
    """`rouse.on_rousal` hears what any watcher finds."""
    clocks, told = ClocksByHand(), list[rouse.Rousal]()
    registration = rouse.on_rousal(told.append, phase=Phase.TIME)
    try:
        watcher = rouse.Watcher(clocks=clocks.clocks)
        clocks.suspend(60.0)
        rousal = watcher.check()
    finally:
        registration.take_back()
    assert told == [rousal]


def test_a_copy_made_while_phases_run_starts_them_anew() -> None:
    """The copy has no thread that would finish them: its own event is told, and its gate opens."""
    registry = rouse.Registry()
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=60.0), registry=registry)
    entered, leave = threading.Event(), threading.Event()
    original = os.getpid()

    @registry.on_rousal
    def block_in_the_original(_rousal: rouse.Rousal) -> None:
        if os.getpid() == original:
            entered.set()
            assert leave.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=registry.tell, args=(made(),))
    thread.start()
    assert entered.wait(PATIENCE_SECONDS)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            rousal = watcher.check()
            same = registry.pass_gate() == rouse.incarnation()
            os.write(writer, json.dumps([rousal and rousal.kind, same]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    answer = os.read(reader, 4096)
    os.waitpid(pid, 0)
    os.close(reader)
    leave.set()
    thread.join()
    assert json.loads(answer) == ["copied", True]


def test_a_life_ended_by_hand_is_no_told_event() -> None:
    """Nothing was told of it, so it is told now."""
    clocks, registry = ClocksByHand(), rouse.Registry()
    watcher, told = rouse.Watcher(clocks=clocks.clocks, registry=registry), list[rouse.Rousal]()
    registry.on_rousal(told.append)
    end(rouse.incarnation())
    assert watcher.check() == told[0]
