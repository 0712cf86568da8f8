"""The claim: who is next, and everything that a resume needs in one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.world import LEASE, TOKEN, add, away, populate
from tests.stores import START_AT
from torpor.core.family import pack_members
from torpor.core.journal import Entry, Kind
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.store.rows import Claim, NewRun, NewSignal, RunChange, StateRow, WaitRow

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store


def _wait(run: int, slot: int, seq: int, kind: WaitKind, title: str = "t") -> WaitRow:
    return WaitRow(run, slot, seq, kind, START_AT + seq, None, title, None)


def test_claims_go_by_priority_then_due_time(store: Store, moment: Moment) -> None:
    """The least priority number first, then whoever waited longest; everything comes in one answer."""
    world = populate(store, 1)
    moment.advance(1)
    new = [NewRun(world.program, 1, b"x", priority=p) for p in (5, 0, -5)]
    late, second, first = store.transact_now(lambda tx: tx.insert_runs(new))
    claimed = world.claim(3)
    assert [c.run.id for c in claimed] == [first, world.runs[0], second]
    one = claimed[0]
    assert (one.run.state, one.run.epoch, one.lease.epoch) == (State.RUNNING, 1, 1)
    assert (one.lease.token, one.lease.worker, one.lease.head) == (TOKEN, world.worker, 0)
    assert one.lease.expires_at == moment.at + LEASE
    assert (tuple(one.state), one.entries, one.waits, one.unread) == ((first, 0, moment.at, 1, b"x"), [], [], [])
    assert world.lease(first) == one.lease
    assert [c.run.id for c in world.claim(3)] == [late]
    assert world.claim(3) == []


def test_a_claim_takes_one_tenant_at_a_time(store: Store) -> None:
    """The next tenant after the last one that was served, round and round; only programs that were asked for."""
    world = populate(store, 2)
    other, zeta = store.transact_now(lambda tx: tx.intern_tenants(["other", "zeta"]))
    strange = store.transact_now(lambda tx: tx.intern_programs([("strange", 1, "m:s")]))[0]
    new = [NewRun(world.program, other, b""), NewRun(strange, zeta, b"")]
    theirs, _ = store.transact_now(lambda tx: tx.insert_runs(new))
    assert [c.run.id for c in world.claim(1)] == [world.runs[0]]
    assert [c.run.id for c in world.claim(9, after_tenant=1)] == [theirs]
    assert [c.run.id for c in world.claim(9, after_tenant=other)] == [world.runs[1]], "zeta has nothing for us"
    assert world.claim(9, after_tenant=zeta) == []
    wanted = Claim(world.worker, [], 9, TOKEN, LEASE)
    assert store.transact_now(lambda tx: tx.claim(wanted)) == []


def test_a_claim_reads_only_what_follows_the_checkpoint(store: Store, moment: Moment) -> None:
    """The checkpoint, the entries above it and nothing below it (G9)."""
    world = populate(store, 2)
    lease = world.claim(1)[0].lease
    run = lease.run_id
    at = moment.advance(2)
    world.append([add(lease, *[Entry(Kind.NOTE, None, bytes([n])) for n in range(5)])])
    store.transact_now(lambda tx: tx.put_states([StateRow(run, 3, at, 2, b"state")]))
    world.leave([away(lease._replace(head=5), after=State.READY)])
    store.transact_now(lambda tx: tx.drop_runs([world.runs[1]]))
    claimed = world.claim()[0]
    assert claimed.state == StateRow(run, 3, at, 2, b"state")
    assert [entry.seq for entry in claimed.entries] == [4, 5, 6]
    assert store.transact_now(lambda tx: tx.states([run])) == {run: claimed.state}


def test_a_claim_brings_open_waits_and_unread_signals(store: Store) -> None:
    """Everything that a resume needs, in the claim's own answer."""
    world = populate(store, 1)
    lease = world.claim()[0].lease
    run = lease.run_id
    waits = [
        _wait(run, 0, 1, WaitKind.MESSAGE, "go"),
        _wait(run, 1, 2, WaitKind.APPROVAL),
        _wait(run, 2, 1, WaitKind.TIMER),
        _wait(run, 3, 3, WaitKind.CHILDREN)._replace(need=2, members=pack_members([5, 7])),
    ]
    store.transact_now(lambda tx: tx.put_waits(waits))
    store.transact_now(lambda tx: tx.end_waits([(run, 2)]))
    store.transact_now(lambda tx: tx.answer_wait(run, 1, 2, b"yes"))
    world.leave([away(lease)])
    world.signal(NewSignal(run, "go", b"1"), NewSignal(run, "no", b"2", "k"), NewSignal(run, "go", b"3"))
    store.transact_now(lambda tx: tx.take_signals([(run, 2)]))
    claimed = world.claim()[0]
    assert claimed.waits == [waits[0], waits[1]._replace(answered_at=START_AT, answer=b"yes"), waits[3]]
    assert [(s.seq, s.name, s.body) for s in claimed.unread] == [(1, "go", b"1"), (3, "go", b"3")]
    assert claimed.run.inbox == 3


def test_a_claim_carries_the_run_s_flags_to_its_lease(store: Store) -> None:
    """A cancelled run that is claimed accepts no intent from its first moment (G12)."""
    world = populate(store, 1)
    store.transact_now(lambda tx: tx.change_runs([RunChange(world.runs[0], flags=Flag.CANCEL)]))
    assert world.claim()[0].lease.flags == Flag.CANCEL
