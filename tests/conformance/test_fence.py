"""The fence: a leaseholder's write happens exactly if token, epoch and head are the lease's (G1, G2, G12)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.conformance.world import LEASE, OUTCOME, TOKEN, World, add, away, populate
from tests.stores import raw
from torpor.core.journal import Entry, Kind
from torpor.core.lease import Fence, Lease, fence
from torpor.core.run import Flag, State, parked_as
from torpor.store.protocol import Lane
from torpor.store.rows import Append, Kept, Leave, Left, NewSignal, RunChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment, Place
    from torpor.store.protocol import Store, Tx

STALE: dict[str, Callable[[Append], Append]] = {
    "token": lambda row: row._replace(token=row.token + 1),
    "older epoch": lambda row: row._replace(epoch=row.epoch - 1),
    "older head": lambda row: row._replace(head=row.head - 1),
    "newer head": lambda row: row._replace(head=row.head + 1),
    "cancelled": lambda row: row._replace(forbids_cancel=True),
}
NOTES = [Entry(Kind.INTENT, "k", b"i"), Entry(Kind.OUTCOME, "k", b"o"), Entry(Kind.NOTE, None, None)]


def _attempts(world: World) -> list[tuple[Append, Lease | None, bool]]:
    """Return, one run each, an append for every way that it can agree or disagree with its lease, and that lease."""
    ways = list(product((0, 1), (0, 1), (-1, 0, 1), (False, True), (False, True)))
    leases = {claimed.run.id: claimed.lease for claimed in world.claim(len(ways))}
    cancelled = [run for run, way in zip(leases, ways, strict=True) if way[4]]
    world.store.transact_now(lambda tx: tx.flag_leases(cancelled, Flag.CANCEL))
    attempts: list[tuple[Append, Lease | None, bool]] = []
    for lease, (token, epoch, head, forbids, _) in zip(leases.values(), ways, strict=True):
        row = Append(lease.run_id, TOKEN + token, lease.epoch + epoch, lease.head + head, forbids, [OUTCOME])
        attempts.append((row, world.lease(lease.run_id), forbids))
    return attempts


def _allowed(row: Append, lease: Lease | None, *, forbids: bool) -> bool:
    verdict = fence(lease, token=row.token, epoch=row.epoch, head=row.head, has_intent=forbids)
    return verdict is Fence.HOLDS


@pytest.mark.parametrize("how", ["batch", "each", "alone"])
def test_append_agrees_with_the_core(store: Store, how: str) -> None:
    """The store's WHERE and `core.lease.fence` say the same for every combination, in a batch and one by one."""
    world = populate(store, 48)
    attempts = _attempts(world)
    rows = [row for row, _, _ in attempts]
    batches = [rows] if how == "batch" else [[row] for row in rows]

    def append(tx: Tx, batch: list[Append]) -> dict[int, Flag]:
        if how == "alone":
            tx.alone()
        return tx.append(batch, lease_micros=LEASE)

    accepted = {run for batch in batches for run in store.transact_now(append, batch)}
    assert accepted == {row.run_id for row, lease, forbids in attempts if _allowed(row, lease, forbids=forbids)}
    assert 0 < len(accepted) < len(rows)
    for row, lease, _ in attempts:
        now, entries = world.lease(row.run_id), store.transact_now(lambda tx, run=row.run_id: tx.journal(run))
        assert lease is not None
        assert now is not None
        assert (now.head, len(entries)) == ((lease.head + 1, 1) if row.run_id in accepted else (lease.head, 0))


@pytest.mark.parametrize("many", [1, 2, 9])
@pytest.mark.parametrize("refused", [False, True])
def test_signals_are_taken_exactly_with_the_entries_that_consume_them(
    store: Store, many: int, *, refused: bool
) -> None:
    """An append that passes takes the signals it names, a key stays known; one that is refused takes none (G1, G7)."""
    world = populate(store, many)
    leases = [one.lease for one in world.claim()]
    for lease in leases:
        world.signal(*(NewSignal(lease.run_id, name, b"", key) for name, key in (("a", None), ("b", "k"), ("c", None))))
    odd = leases[-1].run_id
    rows = [add(lease)._replace(taken=[1, 2]) for lease in leases]
    rows = [row._replace(token=row.token + (refused and row.run_id == odd)) for row in rows]
    passed = world.append(rows)
    assert set(passed) == {row.run_id for row in rows} - ({odd} if refused else set())
    unread = store.transact_now(lambda tx: tx.unread([row.run_id for row in rows]))
    for row in rows:
        assert [signal.name for signal in unread[row.run_id]] == (["c"] if row.run_id in passed else ["a", "b", "c"])
        assert world.signal(NewSignal(row.run_id, "b", b"", "k")) == [Kept.DUPLICATE]


@pytest.mark.parametrize("way", STALE)
def test_one_stale_row_among_many_is_refused_alone(store: Store, way: str) -> None:
    """A batch in which all is well goes a way of its own on some stores: there, too, nothing stale gets through."""
    many = 9
    world = populate(store, many)
    claimed = [one.lease.run_id for one in world.claim()]
    for odd in (claimed[0], claimed[many // 2], claimed[-1]):
        before = store.transact_now(lambda tx: tx.leases(claimed))
        if way == "cancelled":
            store.transact_now(lambda tx, odd=odd: tx.flag_leases([odd], Flag.CANCEL))
        rows = [STALE[way](add(lease)) if run == odd else add(lease) for run, lease in before.items()]
        assert set(world.append(rows)) == set(claimed) - {odd}
        for run, lease in before.items():
            now, entries = world.lease(run), store.transact_now(lambda tx, run=run: tx.journal(run))
            assert now is not None
            assert now.head == len(entries) == lease.head + (run != odd)


def test_leave_agrees_with_the_core(store: Store) -> None:
    """The same for the append that ends a stretch; a refused one leaves lease and run as they were."""
    world = populate(store, 48)
    attempts = _attempts(world)
    left = world.leave([Leave(row, State.WAITING, 0, None, Flag.NONE) for row, _, _ in attempts])
    assert set(left) == {row.run_id for row, lease, forbids in attempts if _allowed(row, lease, forbids=forbids)}
    for row, lease, _ in attempts:
        assert world.state(row.run_id) is left.get(row.run_id, State.RUNNING)
        assert world.lease(row.run_id) == (None if row.run_id in left else lease)


def test_a_lease_that_is_not_there_refuses(store: Store) -> None:
    """A run that is ready, or that never was, has no leaseholder."""
    world = populate(store, 1)
    ghosts = [Lease(run, TOKEN, 1, 0, 1, 0, Flag.NONE) for run in (world.runs[0], 999_999)]
    for batch in (ghosts, ghosts[:1]):
        assert world.append([add(ghost) for ghost in batch]) == {}
    assert world.leave([away(ghost) for ghost in ghosts]) == {}
    assert world.state(world.runs[0]) is State.READY


def test_entries_are_numbered_and_dated_under_the_fence(store: Store, moment: Moment) -> None:
    """A batch writes entries of different lengths to several runs, and extends their leases."""
    world = populate(store, 3)
    one, two, three = (claimed.lease for claimed in world.claim())
    at = moment.advance(5)
    flags = world.append([add(three, *NOTES), add(one), add(two, *NOTES[:2])])
    assert flags == {one.run_id: Flag.NONE, two.run_id: Flag.NONE, three.run_id: Flag.NONE}
    entries = store.transact_now(lambda tx: tx.journal(three.run_id))
    assert [(e.seq, e.at, e.epoch, e.kind, e.key, e.body) for e in entries] == [
        (1, at, 1, Kind.INTENT, "k", b"i"),
        (2, at, 1, Kind.OUTCOME, "k", b"o"),
        (3, at, 1, Kind.NOTE, None, None),
    ]
    heads = [(lease.head, lease.expires_at) for lease in store.transact_now(lambda tx: tx.leases(world.runs)).values()]
    assert heads == [(1, at + LEASE), (2, at + LEASE), (3, at + LEASE)]
    assert world.append([add(three)]) == {}, "that head was used"
    assert world.append([add(three._replace(head=3))]) == {three.run_id: Flag.NONE}
    assert world.state(three.run_id) is State.RUNNING


@pytest.mark.parametrize("entry", [*NOTES, Entry(Kind.OUTCOME, "Mäuse/1", bytes(range(256)) * 900)])
def test_a_lone_entry_is_written_as_any_other(store: Store, moment: Moment, entry: Entry) -> None:
    """One entry, committed at once: number, time, texts and bytes, the lease extended, its flags returned."""
    world = populate(store, 1)
    lease = world.claim()[0].lease
    store.transact_now(lambda tx: tx.flag_leases([lease.run_id], Flag.PERSON))
    at = moment.advance(5)

    def append(tx: Tx, head: int) -> tuple[dict[int, Flag], int]:
        tx.alone()
        return tx.append([add(lease._replace(head=head), entry)], lease_micros=LEASE), tx.now()

    assert store.transact_now(append, 0) == ({lease.run_id: Flag.PERSON}, at)
    assert store.transact_now(append, 0)[0] == {}
    assert store.transact_now(append, 1)[0] == {lease.run_id: Flag.PERSON}
    found = store.transact_now(lambda tx: tx.journal(lease.run_id))
    assert [(e.seq, e.at, e.epoch, e.kind, e.key, e.body) for e in found] == [
        (n, at, lease.epoch, entry.kind, entry.key, entry.body) for n in (1, 2)
    ]
    now = world.lease(lease.run_id)
    assert now is not None
    assert (now.head, now.expires_at) == (2, at + LEASE)


def test_a_lone_entry_needs_nothing_that_was_prepared(on_server: Place) -> None:
    """A rollback makes the driver forget its statements, and so may an author's own."""
    store = on_server.postgres()
    world = populate(store, 1)
    lease = world.claim()[0].lease

    def append(tx: Tx, head: int) -> dict[int, Flag]:
        tx.alone()
        return tx.append([add(lease._replace(head=head))], lease_micros=LEASE)

    def fail(tx: Tx) -> None:
        tx.get_meta("k")
        raise KeyError

    assert store.transact_now(append, 0, lane=Lane.COMMIT)
    with pytest.raises(KeyError):
        store.transact_now(fail, lane=Lane.COMMIT)
    assert store.transact_now(append, 1, lane=Lane.COMMIT)
    store.transact_now(lambda tx: raw(tx).execute("DEALLOCATE ALL"), lane=Lane.COMMIT)
    assert store.transact_now(append, 2, lane=Lane.COMMIT)


def test_flags_come_back_with_an_append(store: Store) -> None:
    """Whoever steps on learns that cancel was asked."""
    world = populate(store, 2)
    one, two = (claimed.lease for claimed in world.claim())
    store.transact_now(lambda tx: tx.flag_leases([one.run_id], Flag.CANCEL))
    store.transact_now(lambda tx: tx.flag_leases([one.run_id], Flag.PERSON))
    assert world.append([add(one), add(two)]) == {one.run_id: Flag.CANCEL | Flag.PERSON, two.run_id: Flag.NONE}


def test_a_batch_writes_to_a_run_once(store: Store) -> None:
    """Two appends to one run in a batch are a defect of the caller, on every store."""
    world = populate(store, 1)
    lease = world.claim()[0].lease
    with pytest.raises(AssertionError, match="G1"):
        world.append([add(lease), add(lease._replace(head=1))])
    assert world.lease(lease.run_id) == lease


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("seen", [0, 1, 2])
@pytest.mark.parametrize("after", [State.WAITING, State.READY, State.COMPLETED, State.FAILED, State.CANCELLED])
def test_leave_parks_as_the_core_says(
    store: Store,
    moment: Moment,
    after: State,
    seen: int,
    cancel: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A run that is put away while more came than was seen, or cancel was asked, is ready (G7, G12)."""
    world = populate(store, 1)
    lease = world.claim()[0].lease
    run = lease.run_id
    asked = Flag.CANCEL if cancel else Flag.NONE
    store.transact_now(lambda tx: tx.change_runs([RunChange(run, inbox=1, flags=asked, stalls=2)]))
    at = moment.advance(3)
    left = world.leave([away(lease, *NOTES, after=after, seen=seen, due_at=at + 99, flags=Flag.PERSON)])
    expected = parked_as(inbox=1, seen=seen, cancel=cancel) if after is State.WAITING else after
    assert left == {run: expected}
    row = store.transact_now(lambda tx: tx.get_runs([run]))[run]
    assert (row.state, row.head, row.seen, row.stalls, row.epoch) == (expected, 3, seen, 0, 1)
    assert row.due_at == (at + 99 if expected is State.WAITING else at)
    assert row.flags == asked | Flag.PERSON, "cancel stays"
    assert world.lease(run) is None


def test_an_epoch_is_new_with_each_claim(store: Store) -> None:
    """Whoever comes back after a takeover finds another epoch, even with an equal token."""
    world = populate(store, 1)
    old = world.claim()[0].lease
    world.leave([away(old, after=State.READY)])
    new = world.claim()[0]
    assert (new.lease.epoch, new.lease.head, new.run.head) == (2, 1, 1)
    assert [entry.seq for entry in new.entries] == [1]
    assert world.append([add(old._replace(head=1))]) == {}
    assert world.append([add(new.lease)]) == {old.run_id: Flag.NONE}


def test_appends_and_leaves_share_a_transaction(store: Store) -> None:
    """Group commit: some runs go on, some stop, one is refused, all in one transaction."""
    world = populate(store, 3)
    one, two, three = (claimed.lease for claimed in world.claim())

    def both(tx: Tx) -> tuple[dict[int, Flag], dict[int, Left]]:
        tx.fence_order([three.run_id], world.runs)
        kept = tx.append([add(two), add(one._replace(head=5))], lease_micros=LEASE)
        return kept, tx.leave([away(three)])

    assert store.transact_now(both) == ({two.run_id: Flag.NONE}, {three.run_id: Left(State.WAITING, Flag.NONE)})


def test_alone_is_a_transaction_by_itself(store: Store) -> None:
    """What was said before the first answered verb is committed with it, and later trouble does not take it back."""
    world = populate(store, 1)
    lease = world.claim()[0].lease

    def op(tx: Tx) -> None:
        tx.put_meta("with", "it")
        tx.alone()
        assert tx.append([add(lease)], lease_micros=LEASE)
        assert tx.append([add(lease._replace(head=1))], lease_micros=LEASE)

    store.transact_now(op)
    assert store.transact_now(lambda tx: tx.get_meta("with")) == "it"
    assert len(store.transact_now(lambda tx: tx.journal(lease.run_id))) == 2
