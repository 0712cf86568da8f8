"""Before a snapshot and after a restore, as SnapStart's convention has it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from torpor import rouse
from torpor.rouse import Kind, Phase, RouseError, SnapshotHooks


def test_before_runs_in_reverse_after_in_order_and_the_gate_is_closed_between() -> None:
    """With the arguments given; the function stays usable as a decorator would leave it."""
    registry, calls = rouse.Registry(), list[tuple[object, ...]]()
    hooks = SnapshotHooks(registry)

    def note(*args: object, **kwargs: object) -> None:
        calls.append((*args, *kwargs.items()))

    assert hooks.register_before_snapshot(note, "before", 1) is note
    hooks.register_before_snapshot(note, "before", number=2)
    hooks.register_after_restore(note, "after", 1)
    assert hooks.register_after_restore(note, "after", number=2) is note
    born_in = registry.pass_gate()
    hooks.before_snapshot()
    assert calls == [("before", ("number", 2)), ("before", 1)]
    with pytest.raises(rouse.GateClosed, match="a snapshot is being taken"):
        registry.pass_gate()
    assert rouse.incarnation() == born_in
    rousal = hooks.after_restore(away_seconds=3.0)
    assert calls[2:] == [("after", 1), ("after", ("number", 2))]
    assert rousal is not None
    assert (rousal.kind, rousal.away_seconds) == (Kind.COPIED, 3.0)
    assert registry.pass_gate() == rousal.after != born_in


def test_what_cannot_run_is_refused_when_it_is_registered() -> None:
    """Not when the snapshot is taken; and nobody would wait for a coroutine."""
    hooks = SnapshotHooks(rouse.Registry())

    async def later() -> None:
        """Never run."""

    for register in (hooks.register_before_snapshot, hooks.register_after_restore):
        with pytest.raises(TypeError, match="5 cannot be called: hooks of a snapshot are functions"):
            register(5)  # type: ignore[type-var]  # that is the mistake
        with pytest.raises(
            TypeError, match=r"later.* is a coroutine function: hooks of a snapshot are plain functions"
        ):
            register(later)
    hooks.before_snapshot()
    assert hooks.after_restore() is not None


def test_a_restore_runs_all_phases() -> None:
    """What was registered the other way hears of it too."""
    registry, calls = rouse.Registry(), list[str]()
    hooks = SnapshotHooks(registry)
    for phase in Phase:
        registry.on_rousal(lambda _, name=phase.name: calls.append(name), phase=phase)
    hooks.register_after_restore(calls.append, "after_restore")
    hooks.after_restore()
    assert calls == [
        "CLOSE_GATE", "RESEED", "TIME", "CONNECTIONS", "AUTHORITY", "after_restore", "SCHEDULES", "OPEN_GATE"
    ]  # fmt: skip


def test_a_wake_that_nobody_announced_runs_them_as_well() -> None:
    """A freeze may have been a snapshot; what the host says was mere sleep was none."""
    clocks, registry, calls = ClocksByHand(), rouse.Registry(), list[str]()
    watcher = rouse.Watcher(clocks=clocks.clocks, registry=registry)
    SnapshotHooks(registry).register_after_restore(calls.append, "after_restore")
    clocks.pass_time(60.0)
    watcher.check()
    assert calls == ["after_restore"]
    watcher.hear(rouse.Finding(Kind.SLEPT, "the host says so", certain=True, by="host file"))
    assert calls == ["after_restore"]


def test_a_watcher_that_noticed_first_leaves_nothing_to_tell() -> None:
    """Two notices, one event; the gate still opens only when the host says so."""
    registry, told = rouse.Registry(), list[rouse.Rousal]()
    hooks = SnapshotHooks(registry)
    registry.on_rousal(told.append)
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=60.0), registry=registry)
    hooks.before_snapshot()
    noticed = watcher.hear(rouse.Finding(Kind.COPIED, "generation 2", certain=True, by="vmclock"))
    with pytest.raises(rouse.GateClosed):
        registry.pass_gate()
    assert hooks.after_restore() is noticed
    assert told == [noticed]
    registry.pass_gate()


def test_an_event_of_a_moment_ago_is_not_the_restore() -> None:
    """Woken, told by the host, and saved again at once: each copy that is restored then must reseed."""
    registry, told = rouse.Registry(), list[rouse.Rousal]()
    hooks = SnapshotHooks(registry)
    registry.on_rousal(told.append)
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=60.0), registry=registry)
    for number in range(3):
        host = rouse.Finding(Kind.COPIED, "the host", certain=True, by="host file", notice=f"host: {number}")
        first = watcher.hear(host)
        hooks.before_snapshot()
        second = hooks.after_restore()
        assert second is not None
        assert told[-2:] == [first, second]


def test_no_snapshot_was_taken() -> None:
    """The gate opens, nobody is told, and the life goes on; also where there was nothing to call off."""
    registry, told = rouse.Registry(), list[rouse.Rousal]()
    hooks = SnapshotHooks(registry)
    registry.on_rousal(told.append)
    born_in = registry.pass_gate()
    hooks.before_snapshot()
    assert not registry.is_open
    for _ in range(2):
        hooks.no_snapshot()
        assert registry.is_open
    assert registry.pass_gate() == born_in
    assert told == []


def test_what_was_registered_can_be_taken_back() -> None:
    """By the function, however often it was registered; the others stay."""
    registry, calls = rouse.Registry(), list[str]()
    hooks = SnapshotHooks(registry)
    for name in ("a", "b"):
        hooks.register_before_snapshot(calls.append, name)
        hooks.register_after_restore(calls.append, name)
    hooks.register_after_restore(calls.clear)
    hooks.take_back(calls.append)
    hooks.take_back(calls.append)
    calls.append("stays until it is cleared")
    hooks.before_snapshot()
    assert calls == ["stays until it is cleared"]
    hooks.after_restore()
    assert calls == []


def test_a_function_before_a_snapshot_may_wait_for_a_thread_that_looks() -> None:
    """It runs without the registry's lock, which whoever looks needs; and the time it takes is no time away."""
    registry = rouse.Registry()
    hooks = SnapshotHooks(registry)
    watcher = rouse.Watcher(registry=registry)
    looked: list[object] = []

    def wait() -> None:
        looking = threading.Thread(target=lambda: looked.append(watcher.check()))
        looking.start()
        looking.join(PATIENCE_SECONDS)
        assert not looking.is_alive()

    hooks.register_before_snapshot(wait)
    hooks.before_snapshot()
    assert looked == [None]


def test_a_failure_before_the_snapshot_leaves_the_gate_closed() -> None:
    """Whoever takes snapshots takes none, and opens the gate by saying so."""
    registry, calls = rouse.Registry(), list[str]()
    hooks = SnapshotHooks(registry)
    hooks.register_before_snapshot(calls.append, "first")
    hooks.register_before_snapshot([].pop)
    with pytest.raises(IndexError):
        hooks.before_snapshot()
    assert calls == []
    with pytest.raises(rouse.GateClosed):
        registry.pass_gate()
    hooks.no_snapshot()
    registry.pass_gate()


def test_a_failure_after_the_restore_is_a_failed_rousal() -> None:
    """The gate opens when it is mended."""
    registry, broken = rouse.Registry(), [True]
    hooks = SnapshotHooks(registry)

    def reconnect() -> None:
        if broken:
            raise OSError("no network")

    hooks.register_after_restore(reconnect)
    hooks.before_snapshot()
    with pytest.raises(rouse.RousalFailed, match="no network"):
        hooks.after_restore()
    with pytest.raises(rouse.RousalFailed):
        registry.pass_gate()
    broken.clear()
    registry.mend()
    registry.pass_gate()


def test_the_process_has_its_own_hooks() -> None:
    """Under the names of the convention."""
    assert rouse.register_before_snapshot.__self__ is rouse.before_snapshot.__self__  # type: ignore[attr-defined]
    assert rouse.register_after_restore.__self__ is rouse.after_restore.__self__  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), OSError("full")], ids=repr)
def test_whatever_a_function_raises_before_it_is_an_error(error: BaseException) -> None:
    """Whoever takes the snapshot hears of it as of any other, and does not end by it."""
    hooks = SnapshotHooks(rouse.Registry())

    def fails() -> None:
        raise error

    hooks.register_before_snapshot(fails)
    with pytest.raises(OSError if isinstance(error, OSError) else RouseError, match=type(error).__name__ + "|full"):
        hooks.before_snapshot()
