"""Bad interleavings of families, forced on a server: a start and a cancel, an end and the work on an earlier note."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.meeting import Beside, Held
from tests.conformance.world import away, populate
from torpor.core.commit import MessageKind, NewMessage, Proposal
from torpor.core.family import done_name
from torpor.core.journal import Entry, Kind
from torpor.core.run import Flag, State
from torpor.engine import follow_ups, runs, waits
from torpor.engine.commit import commit
from torpor.store.rows import NewRun, RunChange

if TYPE_CHECKING:
    from tests.conformance.world import World
    from tests.stores import Place
    from torpor.core.lease import Lease
    from torpor.engine.commit import Reply
    from torpor.store.postgres import PostgresStore
    from torpor.store.protocol import Tx

NOTE = Entry(Kind.NOTE, None, b"1")


@pytest.fixture
def world(on_server: Place) -> World:
    """Return a world with one ready run."""
    return populate(on_server.open(), 1)


@pytest.fixture
def other(on_server: Place) -> PostgresStore:
    """Return a second store on the same database."""
    return on_server.postgres()


def _ends(lease: Lease) -> list[Proposal]:
    return [Proposal(lease.run_id, lease.token, lease.epoch, lease.head, [NOTE], State.CANCELLED)]


def _child(world: World) -> Lease:
    """Return the lease of a child that has children, is being cancelled, and whose parent sleeps."""
    parent = world.claim()[0].lease
    world.leave([away(parent)])
    new = [NewRun(world.program, world.tenant, b"input", parent=parent.run_id)]
    child = world.store.transact_now(lambda tx: tx.insert_runs(new))[0]
    flags = Flag.CHILD | Flag.FAMILY
    world.store.transact_now(lambda tx: tx.change_runs([RunChange(child, flags=flags)]))
    lease = world.claim()[0].lease
    world.store.transact_now(runs.cancel, child)
    return lease


def _told(world: World, child: int) -> list[str]:
    unread = world.store.transact_now(lambda tx: tx.unread(world.runs)).get(world.runs[0], [])
    assert {signal.name for signal in unread} <= {done_name(child)}
    return [str(signal.sender) for signal in unread]


def test_an_end_behind_the_work_on_an_older_note_is_told(on_server: Place, world: World, other: PostgresStore) -> None:
    """The sweep is about to remove the note of the cancel when the end is committed: that leaves a note of its own (G7)."""
    lease = _child(world)
    sweep = Held(world.store, follow_ups.settle)
    end: Beside[list[Reply]] = Beside(lambda: other.transact_now(commit, _ends(lease)))
    on_server.blocked()
    assert sweep.result().done == 1
    end.result()
    assert _told(world, lease.run_id) == []
    world.store.transact_now(follow_ups.settle)
    assert _told(world, lease.run_id) == ["cancelled"]


def test_the_work_on_a_note_behind_an_end_sees_it(on_server: Place, world: World, other: PostgresStore) -> None:
    """The end comes first, and finds a note that is there: whoever waited for the run's lock tells it."""
    lease = _child(world)
    end = Held(world.store, lambda tx: commit(tx, _ends(lease)))
    sweep = Beside(lambda: other.transact_now(follow_ups.settle))
    on_server.blocked()
    end.result()
    assert sweep.result().done == 1
    assert _told(world, lease.run_id) == ["cancelled"]
    assert world.store.transact_now(lambda tx: tx.follow_ups(limit=9)) == []


def _wants_child(world: World) -> int:
    message = NewMessage(0, "audit", "k", b"7", MessageKind.SPAWN)
    world.store.transact_now(lambda tx: tx.add_messages([(world.runs[0], message)]))
    return world.runs[0]


def _children(world: World) -> list[Flag]:
    rows = world.store.transact_now(lambda tx: tx.children(world.runs[0], limit=9))
    return [row.flags for row in rows]


def test_a_cancel_behind_a_start_finds_the_child(on_server: Place, world: World, other: PostgresStore) -> None:
    """It waits for the parent's lock, counts the child, and the cascade reaches it (G12)."""
    parent = _wants_child(world)
    start = Held(world.store, waits.deliver)
    cancel = Beside(lambda: other.transact_now(runs.cancel, parent))
    on_server.blocked()
    start.result()
    assert cancel.result().descendants == 1
    world.store.transact_now(follow_ups.settle)
    assert _children(world) == [Flag.CHILD | Flag.CANCEL]


def test_a_start_behind_a_cancel_is_refused(on_server: Place, world: World, other: PostgresStore) -> None:
    """It waits for the parent's lock, and then there is nothing to start (G12)."""
    parent = _wants_child(world)

    def cancelled(tx: Tx) -> runs.Cancelled:
        return runs.cancel(tx, parent)

    cancel = Held(world.store, cancelled)
    start = Beside(lambda: other.transact_now(waits.deliver))
    on_server.blocked()
    assert cancel.result().descendants == 0
    assert start.result().done == 1
    assert _children(world) == []
    assert not world.store.transact_now(lambda tx: tx.undelivered())
