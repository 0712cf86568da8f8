"""Bad interleavings, forced: two connections of a server meet at one row, in each order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.conformance.meeting import Beside, Held
from tests.conformance.world import LEASE, OUTCOME, World, add, away, populate
from tests.stores import raw
from torpor.core.commit import Blob, NewMessage
from torpor.core.journal import Entry, Kind
from torpor.core.run import Flag, State
from torpor.engine import waits
from torpor.store.rows import Claim, Kept, Left, NewSignal, StateRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stores import Moment, Place
    from torpor.store.postgres import PostgresStore
    from torpor.store.protocol import Tx

    Op: TypeAlias = Callable[[Tx], object]

PAUSE = 4242
_PAUSING_CLOCK = """CREATE OR REPLACE FUNCTION torpor_now() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$ BEGIN
    IF current_setting('torpor_test.pause', true) = 'on' THEN PERFORM pg_advisory_xact_lock_shared(4242); END IF;
    RETURN (SELECT at FROM moment); END $$"""


@pytest.fixture
def world(on_server: Place) -> World:
    """Return a world with three ready runs."""
    return populate(on_server.open(), 3)


@pytest.fixture
def other(on_server: Place) -> PostgresStore:
    """Return a second store on the same database."""
    return on_server.postgres()


def test_a_signal_that_waits_behind_a_suspend_wakes_the_run(
    on_server: Place, world: World, other: PostgresStore
) -> None:
    """G7: the signal sees the run waiting, whatever its statement's view was."""
    lease = world.claim(1)[0].lease
    suspend = Held(world.store, lambda tx: tx.leave([away(lease)]))
    signal = Beside(lambda: other.transact_now(lambda tx: tx.add_signals([NewSignal(lease.run_id, "go", b"")])))
    on_server.blocked()
    assert suspend.result() == {lease.run_id: Left(State.WAITING, Flag.NONE)}
    assert signal.result() == [Kept.NEW]
    assert world.state(lease.run_id) is State.READY


def test_a_suspend_that_waits_behind_a_signal_does_not_sleep(
    on_server: Place, world: World, other: PostgresStore
) -> None:
    """G7: the suspend sees that more came than it had seen."""
    lease = world.claim(1)[0].lease
    signal = Held(world.store, lambda tx: tx.add_signals([NewSignal(lease.run_id, "go", b"")]))
    suspend = Beside(lambda: other.transact_now(lambda tx: tx.leave([away(lease, seen=0)])))
    on_server.blocked()
    assert signal.result() == [Kept.NEW]
    assert suspend.result() == {lease.run_id: Left(State.READY, Flag.NONE)}
    assert len(world.store.transact_now(lambda tx: tx.unread([lease.run_id]))[lease.run_id]) == 1


def test_a_senders_messages_never_overtake_each_other(on_server: Place, world: World, other: PostgresStore) -> None:
    """G7: who would deliver the second waits until the first was delivered."""
    sender, target = world.runs[:2]
    world.store.transact_now(
        lambda tx: tx.add_messages([(sender, NewMessage(target, "go", key, b"")) for key in ("k1", "k2")])
    )

    def first(tx: Tx) -> object:
        [message] = tx.outbox(limit=1)
        kept = tx.add_signals([NewSignal(target, "go", b"", message.key)])
        tx.drop_messages([message.id])
        return kept

    delivering = Held(world.store, first)
    second = Beside(lambda: other.transact_now(waits.deliver))
    on_server.blocked()
    assert delivering.result() == [Kept.NEW]
    assert second.result().done == 1
    unread = world.store.transact_now(lambda tx: tx.unread([target]))[target]
    assert [signal.seq for signal in unread] == [1, 2]
    assert world.store.transact_now(lambda tx: tx.outbox(limit=9)) == []


def test_two_signals_with_one_key_are_one(on_server: Place, world: World, other: PostgresStore) -> None:
    """The second cannot see the first's row in its view, and is a duplicate all the same; the numbers go on."""
    run = world.runs[0]
    first = Held(world.store, lambda tx: tx.add_signals([NewSignal(run, "go", b"1", "k")]))
    batch = [NewSignal(run, "go", b"2", "k"), NewSignal(run, "go", b"3")]
    second = Beside(lambda: other.transact_now(lambda tx: tx.add_signals(batch)))
    on_server.blocked()
    assert first.result() == [Kept.NEW]
    assert second.result() == [Kept.DUPLICATE, Kept.NEW]
    assert world.signal(NewSignal(run, "go", b"4")) == [Kept.NEW]
    unread = world.store.transact_now(lambda tx: tx.unread([run]))[run]
    assert [signal.body for signal in unread] == [b"1", b"3", b"4"]
    assert world.store.transact_now(lambda tx: tx.get_runs([run]))[run].inbox == unread[-1].seq


def test_claims_do_not_wait_for_each_other(world: World, other: PostgresStore) -> None:
    """A claim passes over what another one is taking, and takes the next."""
    theirs = World(other, *world[1:])
    first = Held(world.store, lambda tx: _claim(tx, world, 2))
    assert [c.run.id for c in theirs.claim()] == world.runs[2:]
    assert theirs.claim() == []
    assert first.result() == world.runs[:2]


def _claim(tx: Tx, world: World, limit: int) -> list[int]:
    return [c.run.id for c in tx.claim(Claim(world.worker, [world.program], limit, 1, LEASE))]


@pytest.fixture
def paused(on_server: Place) -> Iterator[None]:
    """Stop every claim that `_paused_claim` makes between its view of the tables and its locks, until it is let go."""
    on_server.admin.execute(_PAUSING_CLOCK.encode())
    on_server.admin.execute(f"SELECT pg_advisory_lock({PAUSE})".encode())
    yield
    on_server.admin.execute("SELECT pg_advisory_unlock_all()")


def _paused_claim(world: World, store: PostgresStore) -> list[tuple[int, int, int, list[int]]]:
    def op(tx: Tx) -> list[tuple[int, int, int, list[int]]]:
        raw(tx).execute("SET LOCAL torpor_test.pause = 'on'")
        claimed = tx.claim(Claim(world.worker, [world.program], 1, 99, LEASE))
        return [(c.run.id, c.run.head, c.run.inbox, [entry.seq for entry in c.entries]) for c in claimed]

    return store.transact_now(op)


@pytest.mark.usefixtures("paused")
def test_a_claim_with_an_old_view_takes_nothing(on_server: Place, other: PostgresStore) -> None:
    """G4: another worker took the run, went on and left it between a claim's view and its lock.

    The claim would have the new head and the old journal: an effect with an outcome would start again.
    """
    world = populate(on_server.open(), 1)
    claim = Beside(lambda: _paused_claim(world, other))
    on_server.blocked()
    lease = world.claim()[0].lease
    world.append([add(lease, Entry(Kind.INTENT, "pay", b""), Entry(Kind.OUTCOME, "pay", b"paid"))])
    world.leave([away(lease._replace(head=2), after=State.READY)])
    on_server.admin.execute("SELECT pg_advisory_unlock_all()")
    assert claim.result() == []
    assert [entry.seq for entry in world.claim()[0].entries] == [1, 2, 3]


@pytest.mark.usefixtures("paused")
def test_a_signal_between_view_and_lock_is_not_counted_as_seen(on_server: Place, other: PostgresStore) -> None:
    """G7: the claim's answer has no such signal, so it must not say that it had been seen."""
    world = populate(on_server.open(), 1)
    run = world.runs[0]
    claim = Beside(lambda: _paused_claim(world, other))
    on_server.blocked()
    world.signal(NewSignal(run, "go", b""))
    on_server.admin.execute("SELECT pg_advisory_unlock_all()")
    assert claim.result() == [(run, 0, 0, [])]
    lease = world.lease(run)
    assert lease is not None
    assert world.leave([away(lease, seen=0)]) == {run: State.READY}


def test_a_reaper_passes_over_a_lease_that_is_being_used(world: World, other: PostgresStore) -> None:
    """What a sweep selected is looked at again under its lock; a commit in flight keeps its lease."""
    lease = world.claim(1)[0].lease
    commit = Held(world.store, lambda tx: tx.append([add(lease)], lease_micros=LEASE * 2))

    def reap(tx: Tx) -> list[int]:
        found = [e.run_id for e in tx.expired_leases(before=lease.expires_at, limit=9)]
        assert found == [lease.run_id], "by the old view it is over"
        locked = tx.get_runs(found, lock=True, skip_locked=True)
        return list(tx.leases(list(locked), lock=True, skip_locked=True))

    assert other.transact_now(reap) == []
    assert commit.result() == {lease.run_id: Flag.NONE}
    assert world.store.transact_now(lambda tx: tx.expired_leases(before=lease.expires_at, limit=9)) == []


def test_a_commit_that_waits_behind_a_reaper_is_refused(on_server: Place, world: World, other: PostgresStore) -> None:
    """G1: the lease is gone when the commit gets to it."""
    lease = world.claim(1)[0].lease

    def reap(tx: Tx) -> None:
        tx.get_runs([lease.run_id], lock=True)
        tx.leases([lease.run_id], lock=True)
        tx.drop_leases([lease.run_id])

    reaper = Held(world.store, reap)
    commit = Beside(lambda: other.transact_now(lambda tx: tx.append([add(lease)], lease_micros=LEASE)))
    on_server.blocked()
    reaper.result()
    assert commit.result() == {}
    assert world.store.transact_now(lambda tx: tx.journal(lease.run_id)) == []


def test_a_renewal_that_waits_behind_a_commit_extends_what_it_left(
    on_server: Place, world: World, other: PostgresStore
) -> None:
    """It returns the head as the commit moved it."""
    lease = world.claim(1)[0].lease
    commit = Held(world.store, lambda tx: tx.append([add(lease)], lease_micros=LEASE))
    asked = [(lease.run_id, lease.token, lease.epoch)]
    renewal = Beside(lambda: other.transact_now(lambda tx: tx.renew(world.worker, asked, lease_micros=LEASE)))
    on_server.blocked()
    commit.result()
    assert [renewed.head for renewed in renewal.result()] == [1]


def _lock(runs: list[int]) -> Op:
    return lambda tx: tx.get_runs(runs, lock=True)


def _flag(runs: list[int]) -> Op:
    def flag(tx: Tx) -> object:
        tx.flag_leases(runs, Flag.CANCEL)
        return tx.leases(runs)

    return flag


def test_the_naive_order_of_a_mixed_commit_deadlocks(on_server: Place, world: World, other: PostgresStore) -> None:
    """What `fence_order` is for: append, then leave, against one who locks runs and then leases."""
    one, two = (claimed.lease for claimed in world.claim(2))
    runs = [one.run_id, two.run_id]
    cascade = Held(world.store, _lock(runs), _flag(runs))
    tries: list[Tx] = []

    def commit(tx: Tx) -> dict[int, Left]:
        tries.append(tx)
        tx.append([add(one)], lease_micros=LEASE)
        return tx.leave([away(two)])

    committer = Beside(lambda: other.transact_now(commit))
    on_server.blocked()
    cascade.result()
    assert committer.result()[two.run_id].state is State.WAITING
    assert cascade.tries + len(tries) > 2, "one of them lost a deadlock and was run again"


@pytest.mark.parametrize("first", ["commit", "cascade"])
def test_a_mixed_commit_in_order_never_deadlocks(
    on_server: Place, world: World, other: PostgresStore, first: str
) -> None:
    """`fence_order` locks runs, then leases, in order: whoever comes second waits, and nobody is run twice."""
    one, two = (claimed.lease for claimed in world.claim(2))
    runs = [one.run_id, two.run_id]

    def begin(tx: Tx) -> object:
        tx.fence_order([two.run_id], runs)
        return tx.append([add(one)], lease_micros=LEASE)

    parts: dict[str, tuple[Op, Op]] = {
        "commit": (begin, lambda tx: tx.leave([away(two)])),
        "cascade": (_lock(runs), _flag(runs)),
    }
    leader = Held(world.store, *parts.pop(first))
    second = parts.popitem()[1]
    tries: list[Tx] = []

    def both(tx: Tx) -> object:
        tries.append(tx)
        second[0](tx)
        return second[1](tx)

    follower = Beside(lambda: other.transact_now(both))
    on_server.blocked()
    leader.result()
    follower.result()
    assert (leader.tries, len(tries)) == (1, 1)


def test_leaves_and_renewals_lock_in_one_order(on_server: Place, world: World, other: PostgresStore) -> None:
    """Batches that name the same runs in opposite orders wait for each other, and none is run twice."""
    leases = [claimed.lease for claimed in world.claim()]
    leave = Held(world.store, lambda tx: tx.leave([away(lease) for lease in reversed(leases)]))
    asked = [(lease.run_id, lease.token, lease.epoch) for lease in leases]
    renewal = Beside(lambda: other.transact_now(lambda tx: tx.renew(world.worker, asked, lease_micros=LEASE)))
    on_server.blocked()
    assert len(leave.result()) == 3
    assert renewal.result() == []
    assert leave.tries == 1


def test_a_blob_that_is_being_named_is_not_swept(world: World, other: PostgresStore, moment: Moment) -> None:
    """A sweep that cannot see the new name yet must not take the body."""
    blob = Blob(b"digest", b"body")
    world.store.transact_now(lambda tx: tx.put_blobs([(world.runs[0], blob)]))
    world.store.transact_now(lambda tx: tx.drop_runs([world.runs[0]]))
    before = moment.advance(10)

    def name_it(tx: Tx) -> dict[bytes, bytes]:
        tx.put_blobs([(world.runs[1], blob)])
        return tx.get_blobs([blob.digest])

    naming = Held(world.store, name_it)
    assert other.transact_now(lambda tx: tx.sweep_blobs(before=before, limit=9)) == 0
    naming.result()
    assert other.transact_now(lambda tx: tx.sweep_blobs(before=before, limit=9)) == 0
    assert other.transact_now(lambda tx: tx.get_blobs([blob.digest])) == {blob.digest: b"body"}


def test_two_starts_with_one_key_are_one_run(on_server: Place, world: World, other: PostgresStore) -> None:
    """Whoever waits for the key learns whose it is."""
    one, two, _ = world.runs
    first = Held(world.store, lambda tx: tx.claim_keys([(b"k", one)]))
    second = Beside(lambda: other.transact_now(lambda tx: tx.claim_keys([(b"k", two)])))
    on_server.blocked()
    assert first.result() == {b"k": one}
    assert second.result() == {b"k": one}


def test_a_checkpoint_travels_with_the_commit_that_makes_it_true(world: World, other: PostgresStore) -> None:
    """Nobody sees the entries without the state, nor the state without the entries."""
    lease = world.claim(1)[0].lease

    def commit(tx: Tx) -> dict[int, Flag]:
        kept = tx.append([add(lease, OUTCOME, Entry(Kind.CHECKPOINT, None, None))], lease_micros=LEASE)
        tx.put_states([StateRow(lease.run_id, 2, tx.now(), 2, b"new")])
        tx.get_meta("everything told is sent")
        return kept

    held = Held(world.store, commit)
    run = lease.run_id
    seen = other.transact_now(lambda tx: (len(tx.journal(run)), tx.states([run])[run].body))
    assert seen == (0, b"input")
    held.result()
    assert other.transact_now(lambda tx: (len(tx.journal(run)), tx.states([run])[run].body)) == (2, b"new")
