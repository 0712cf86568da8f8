"""C25: the same callback delivered several times.

One callback is delivered twice at one moment by two processes, and a third time when the run is in a second wait of the
same kind; a process is killed after it answered and before the run moved. Right: the run moves once; repeats are told that
it is handled; the second wait is not touched; what was acknowledged is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases.clients import clients
from torpor.core.ids import run_name
from torpor.core.run import State
from torpor.core.wait import WaitKind

if TYPE_CHECKING:
    from tests.cases.world import World

pytestmark = pytest.mark.slow


def waits_for(world: World, run: int, number: int) -> str:
    """Wait until the run sleeps at its `number`-th callback, and return that one's token."""
    token = str(world.outside.next("token", number).said["token"])

    def sleeps() -> bool:
        rows = world.store.transact_now(lambda tx: tx.waits([run]))
        return world.run(run).state is State.WAITING and any(row.kind is WaitKind.CALLBACK for row in rows)

    world.until(sleeps, f"callback {number} is waited for")
    return token


def test_a_callback_moves_its_run_once(world: World) -> None:
    """Twice at one moment, and a third time in the second wait (G7)."""
    world.worker("waiting", lease_seconds=30)
    run = world.start("calls_back")
    name = run_name("calls_back", run)
    with clients(world.url, 2) as (one, two):
        first = waits_for(world, run, 1)
        one.say("deliver", token=first, value=1)
        two.say("deliver", token=first, value=2)
        answers = [one.answer()["result"], two.answer()["result"]]
        assert sorted(answers) == [[name, False], [name, True]]
        winner = 1 if answers[0][1] else 2
        second = waits_for(world, run, 2)
        assert second != first
        assert one.say("deliver", token=first, value=3).answer()["result"] == [name, False]
        assert world.run(run).state is State.WAITING
        assert [call.said["what"] for call in world.outside.all("act")] == ["moved 0"]
        assert two.say("deliver", token=second, value="second").answer()["result"] == [name, True]
        assert world.result(run) == [winner, "second"]
        assert one.say("deliver", token=second, value=3).answer()["result"] == [name, False]
    assert [call.said["what"] for call in world.outside.all("act")] == ["moved 0", "moved 1"]


def test_what_was_acknowledged_is_not_lost(world: World) -> None:
    """The process that took it is killed as soon as it answered, and no worker lives: the run moves all the same (G3)."""
    worker = world.worker("waiting", lease_seconds=30)
    run = world.start("calls_back")
    name = run_name("calls_back", run)
    first = waits_for(world, run, 1)
    worker.kill()
    with clients(world.url, 1) as (one,):
        assert one.say("deliver", token=first, value="kept", die=True).answer()["result"] == [name, True]
    world.worker("waiting", name="w1", lease_seconds=30)
    second = waits_for(world, run, 2)
    with clients(world.url, 1) as (one,):
        assert one.say("deliver", token=second, value=2).answer()["result"] == [name, True]
    assert world.result(run) == ["kept", 2]
    assert len(world.outside.all("act")) == 2


def test_a_token_is_stored_nowhere(world: World) -> None:
    """Not in the journal, though it was an argument; not in the worker's log (G15)."""
    worker = world.worker("waiting", lease_seconds=30)
    run = world.start("calls_back")
    token = waits_for(world, run, 1)
    assert token not in worker.log
    told = repr(world.journal(run))
    assert "[token of callback]" in told
    assert token not in told
    entries = world.store.transact_now(lambda tx: tx.journal(run))
    assert not any(token.encode() in (entry.body or b"") for entry in entries)
