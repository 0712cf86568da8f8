"""Checkpoints that are kept and emptied, copies of runs, what is removed: the verbs, on every store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.world import OUTCOME, add, away, populate
from torpor.core.checkpoint import Mark, mark_of, told_in_rows
from torpor.core.commit import Blob, NewRow
from torpor.core.journal import Entry, Kind, Stored
from torpor.core.run import Flag, State
from torpor.core.schedule import Fate
from torpor.core.stream import PartKind, PartRow, StreamRow
from torpor.store.history_rows import Emptying, ForkRow, PruneRow, RetentionRow
from torpor.store.rows import NewRun, RunChange, ScheduleRow, SlotRow, StateRow

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store, Tx


def checkpoint(n: int) -> Entry:
    """Return the entry of a checkpoint."""
    return Entry(Kind.CHECKPOINT, Mark(n, 1, 0).text, b"state %d" % n)


def put_rows(tx: Tx, run: int, field: str, first: int, *bodies: bytes) -> None:
    """Append rows."""
    tx.add_rows([(run, NewRow(field, n, body)) for n, body in enumerate(bodies, start=first)])


def test_checkpoints_are_kept_and_emptied(store: Store) -> None:
    """The newest so many stay whole, entry 0 as well; other entries are not touched; other runs neither."""
    world = populate(store, 2)
    first, second = (claimed.lease for claimed in world.claim())
    entries = [entry for n in range(2, 7) for entry in (OUTCOME, checkpoint(n))]
    world.append([add(first, *entries), add(second, *entries)])

    def work(tx: Tx) -> None:
        tx.keep_inputs([(first.run_id, Mark(1, 1, 0).text)])
        tx.keep_inputs([(first.run_id, Mark(1, 1, 0).text)])
        tx.empty_checkpoints([Emptying(first.run_id, 2)])

    store.transact_now(work)
    whole = store.transact_now(lambda tx: tx.whole_checkpoints(first.run_id, limit=9))
    assert [(entry.seq, mark_of(entry.key), entry.body) for entry in whole] == [
        (10, Mark(6, 1, 0), None),
        (8, Mark(5, 1, 0), None),
        (0, Mark(1, 1, 0), None),
    ]
    read = store.transact_now(lambda tx: tx.entries([(first.run_id, n) for n in (0, 6, 8, 9)]))
    assert [entry.body for entry in read.values()] == [b"input", None, b"state 5", OUTCOME.body]
    assert len(store.transact_now(lambda tx: tx.whole_checkpoints(second.run_id, limit=9))) == 5
    assert store.transact_now(lambda tx: tx.journal_tail(first.run_id, limit=20))[0].seq == 1
    assert len(store.transact_now(lambda tx: tx.journal(first.run_id, after=0))) == 10


SAYS = [
    Entry(Kind.INTENT, "e:pay@0", b"asked"),
    Entry(Kind.OUTCOME, "e:pay@0", b"paid"),
    Entry(Kind.OUTCOME, "s:model@1", b"said"),
    Entry(Kind.FAILURE, "s:look@1", b"failed"),
    Entry(Kind.OUTCOME, "s:look@2/other.1/1", b"inside another call"),
    Entry(Kind.OUTCOME, "s:scan#1~00", b"not named"),
    Entry(Kind.OUTCOME, "b:reserve@1", b"money"),
    Entry(Kind.CONSUMED, "a:approve@1", b"yes"),
    Entry(Kind.NOTE, None, b"note"),
]
"""What one turn leaves."""
TOLD = {"e:pay@0", "s:model@1"}


def _whole(store: Store, run: int) -> list[tuple[int, str | None]]:
    """Return which entries of those that can be emptied are whole."""
    entries = store.transact_now(lambda tx: tx.journal(run))
    can = [e for e in entries if e.kind is Kind.CHECKPOINT or (e.kind is Kind.OUTCOME and e.key in TOLD)]
    assert all(e.body is not None for e in entries if e not in can)
    return [(e.seq, e.key) for e in can if e.body is not None]


@pytest.mark.parametrize("keeps", [True, False])
def test_outcomes_that_stand_in_rows_are_emptied_with_the_checkpoint_of_their_turn(store: Store, keeps: bool) -> None:  # noqa: FBT001 - both ways
    """Of nobody else, of no turn whose checkpoint is kept, and of no call of whose value nothing is known to stand there."""
    world = populate(store, 2)
    first, second = (claimed.lease for claimed in world.claim())
    points = [checkpoint(n) if keeps else checkpoint(n)._replace(body=None) for n in range(2, 7)]
    entries = [entry for point in points for entry in (*SAYS, point)]
    world.append([add(first, *entries), add(second, *entries)])
    before = _whole(store, second.run_id)

    def sweep(whole: int) -> list[tuple[int, str | None]]:
        store.transact_now(lambda tx: tx.empty_checkpoints([Emptying(first.run_id, whole, outcomes=True)]))
        return _whole(store, first.run_id)

    if keeps:
        assert sweep(5) == before
        for whole in (4, 3, 1):
            assert sweep(whole) == sweep(whole) == [one for one in before if one[0] > 10 * (5 - whole)]
    else:
        assert sweep(1) == sweep(1) == [one for one in before if one[0] > 40]
    assert _whole(store, second.run_id) == before
    pruned = store.transact_now(lambda tx: tx.journal_tail(first.run_id, limit=100))
    assert [entry.seq for entry in pruned] == list(range(1, 51))


def test_the_rule_of_what_stands_in_rows_is_one() -> None:
    """The core says the same of keys as the statements of both stores."""
    assert {entry.key for entry in SAYS if entry.kind is Kind.OUTCOME and told_in_rows(entry.key)} == TOLD
    assert not told_in_rows(None)


def test_an_input_is_kept_only_before_the_first_checkpoint(store: Store) -> None:
    """A run that has checkpointed has no input any more."""
    world = populate(store)
    (run,) = world.runs
    store.transact_now(lambda tx: tx.put_states([StateRow(run, 4, 5, 2, b"later")]))
    store.transact_now(lambda tx: tx.keep_inputs([(run, "z:1/1/0")]))
    assert store.transact_now(lambda tx: tx.entries([(run, 0)])) == {}


def test_entries_without_a_lease(store: Store) -> None:
    """They stand where they say; a run's epoch, branch and program move with it."""
    world = populate(store)
    (run,) = world.runs
    entries = [Stored(1, 5, 3, Kind.NOTE, None, b"n"), Stored(2, 5, 3, Kind.CHECKPOINT, "z:2/1/1", None)]
    store.transact_now(lambda tx: tx.add_entries(run, entries))
    assert store.transact_now(lambda tx: tx.journal(run)) == entries
    store.transact_now(lambda tx: tx.change_runs([RunChange(run, head=2, epoch=3, branch=1)]))
    row = store.transact_now(lambda tx: tx.get_runs([run]))[run]
    assert (row.head, row.epoch, row.branch, row.state) == (2, 3, 1, State.READY)
    store.transact_now(lambda tx: tx.change_runs([RunChange(run, flags=Flag.NONE)]))
    assert store.transact_now(lambda tx: tx.get_runs([run]))[run] == row


def test_forks_are_found_from_both_sides(store: Store) -> None:
    """By the copy and by the source, newest first."""
    world = populate(store, 3)
    one, two, three = world.runs
    rows = [ForkRow(two, one, 4, 9, "ana", "try"), ForkRow(three, one, 8, 9, "ben", "")]
    for row in rows:
        store.transact_now(lambda tx, row=row: tx.put_fork(row))
    assert store.transact_now(lambda tx: tx.forks(world.runs)) == {two: rows[0], three: rows[1]}
    assert store.transact_now(lambda tx: tx.forks_of(one, limit=5)) == [three, two]
    assert store.transact_now(lambda tx: tx.forks_of(one, limit=1)) == [three]


def test_rows_of_branches(store: Store) -> None:
    """What was cut comes back as it was on a branch, in a copy too; what no branch needs is forgotten."""
    world = populate(store, 3)
    run, copy, other = world.runs

    def rows(of: int, field: str = "a") -> list[bytes]:
        found: list[bytes] = store.transact_now(lambda tx: tx.get_rows(of, field, after=0, limit=99))
        return found

    def first_cuts(branch: int) -> dict[str, int]:
        found: dict[str, int] = store.transact_now(lambda tx: tx.first_cut(run, branch))
        return found

    def work(tx: Tx) -> None:
        put_rows(tx, run, "a", 0, b"0", b"1", b"2", b"3")
        put_rows(tx, run, "b", 0, b"x", b"y")
        tx.cut_rows(run, 0, {"a": 2})
        put_rows(tx, run, "a", 2, b"2 of 1")
        tx.cut_rows(run, 1, {"a": 1})

    store.transact_now(work)
    assert (rows(run), rows(run, "b")) == ([b"0"], [])
    assert (first_cuts(0), first_cuts(1), first_cuts(2)) == ({"a": 1, "b": 0}, {"a": 1}, {})
    store.transact_now(lambda tx: tx.copy_rows(run, copy, 0, {"a": 4, "b": 1}))
    assert (rows(copy), rows(copy, "b")) == ([b"0", b"1", b"2", b"3"], [b"x"])
    store.transact_now(lambda tx: tx.copy_rows(run, other, 1, {"a": 3}))
    assert rows(other) == [b"0", b"1", b"2 of 1"]
    store.transact_now(lambda tx: tx.bring_back(run, 0, "a", 1, 3))
    assert rows(run) == [b"0", b"1", b"2"]
    store.transact_now(lambda tx: tx.drop_cut(run, 1))
    assert (first_cuts(0), first_cuts(1)) == ({"a": 1}, {"a": 1})


def test_a_copy_names_the_blobs_it_needs(store: Store, moment: Moment) -> None:
    """And a run that lost its entries names no more than what is left."""
    world = populate(store, 2)
    run, copy = world.runs
    blobs = [Blob(bytes([n] * 16), b"packed %d" % n) for n in (1, 2)]

    def work(tx: Tx) -> None:
        tx.put_blobs([(run, blob) for blob in blobs])
        put_rows(tx, copy, "a", 0, b"\0" + blobs[0].digest)
        tx.add_entries(run, [Stored(1, 5, 3, Kind.NOTE, None, b"\0" + blobs[1].digest)])
        tx.name_all(copy)
        tx.forget_blobs(run)

    store.transact_now(work)
    moment.advance(10)
    assert store.transact_now(lambda tx: tx.sweep_blobs(before=moment.at, limit=9)) == 0
    store.transact_now(lambda tx: tx.cut_journal(run, 1))
    store.transact_now(lambda tx: tx.forget_blobs(run))
    assert store.transact_now(lambda tx: tx.sweep_blobs(before=moment.at, limit=9)) == 1
    assert list(store.transact_now(lambda tx: tx.get_blobs([blob.digest for blob in blobs]))) == [blobs[0].digest]


def test_retention_is_kept_by_program(store: Store) -> None:
    """The last word counts; None is for ever."""
    rows = [RetentionRow("a", 1, None, 3, 4), RetentionRow("b", None, 2, slots=5)]
    store.transact_now(lambda tx: tx.put_retention(rows))
    store.transact_now(lambda tx: tx.put_retention([RetentionRow("a", 9)]))
    assert store.transact_now(lambda tx: tx.retention()) == [RetentionRow("a", 9), rows[1]]


def test_ended_runs_by_their_end(store: Store, moment: Moment) -> None:
    """Oldest end first, above a place; runs that go on are not among them, and the other way round."""
    world = populate(store, 4)
    leases = [claimed.lease for claimed in world.claim()]
    for lease in (leases[2], leases[0]):
        moment.advance(1)
        world.leave([away(lease, after=State.COMPLETED)])
    at = moment.at

    def ended(after: tuple[int, int], before: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = store.transact_now(
            lambda tx: tx.ended_runs(world.program, before=before, after=after, limit=5)
        )
        return found

    assert ended((0, 0), at + 1) == [(at - 1_000_000, leases[2].run_id), (at, leases[0].run_id)]
    assert ended((at - 1_000_000, leases[2].run_id), at + 1) == [(at, leases[0].run_id)]
    assert ended((0, 0), at) == [(at - 1_000_000, leases[2].run_id)]
    going = sorted([leases[1].run_id, leases[3].run_id])
    assert store.transact_now(lambda tx: tx.open_runs([world.program], after=0, limit=5)) == going
    assert store.transact_now(lambda tx: tx.open_runs([world.program], after=going[0], limit=5)) == going[1:]
    assert store.transact_now(lambda tx: tx.open_runs([999], after=0, limit=5)) == []


def test_runs_go_in_parts(store: Store) -> None:
    """At most so many rows of a table at a time; the run's own row last; the neighbour keeps everything."""
    world = populate(store, 2)
    run, other = world.runs
    for lease in [claimed.lease for claimed in world.claim()]:
        world.append([add(lease, *[OUTCOME] * 5)])
    store.transact_now(lambda tx: put_rows(tx, run, "a", 0, b"1", b"2", b"3"))
    store.transact_now(lambda tx: tx.put_prune(PruneRow(run, 5, 9, "ana")))
    assert store.transact_now(lambda tx: tx.prunes([run, other])) == {run: PruneRow(run, 5, 9, "ana")}
    before = store.transact_now(lambda tx: tx.measure([other]))
    assert before == (5, 5 * len(OUTCOME.body or b"") + len(b"input"))
    gone = more = parts = 0
    while more or not parts:
        entries, more = store.transact_now(lambda tx: tx.drop_of_runs([run], limit=2))
        gone, parts = gone + entries, parts + 1
        assert bool(store.transact_now(lambda tx: tx.get_runs([run]))) is more
    assert (gone, parts) == (5, 4)
    assert store.transact_now(lambda tx: tx.measure([run])) == (0, 0)
    assert store.transact_now(lambda tx: tx.measure([other])) == before


def test_a_number_is_never_used_twice(store: Store) -> None:
    """A run's number is part of its effects' keys: what starts after the newest runs were pruned gets another one."""
    world = populate(store, 3)
    store.transact_now(lambda tx: tx.drop_of_runs(world.runs[1:], limit=100))
    store.transact_now(lambda tx: tx.drop_of_runs(world.runs[:1], limit=100))
    later = populate(store, 2).runs
    assert min(later) > max(world.runs)


def test_a_journal_has_an_old_end(store: Store, moment: Moment) -> None:
    """Up to where all is older than a moment, below a number, a bounded number at a time."""
    world = populate(store)
    (lease,) = (claimed.lease for claimed in world.claim())
    world.append([add(lease, OUTCOME, checkpoint(2))])
    moment.advance(10)
    world.append([add(lease._replace(head=2), OUTCOME, checkpoint(3))])
    size = len(OUTCOME.body or b"")

    def old(before: int, below: int, limit: int) -> tuple[int, int, int]:
        found: tuple[int, int, int] = store.transact_now(
            lambda tx: tx.old_entries(lease.run_id, before=before, below=below, limit=limit)
        )
        return found

    assert old(moment.at, 4, 9) == (2, 2, size + len(b"state 2"))
    assert old(moment.at + 1, 4, 9)[:2] == (3, 3)
    assert old(moment.at, 4, 1) == (1, 1, size)
    assert old(1, 4, 9) == (0, 0, 0)
    store.transact_now(lambda tx: tx.empty_old(lease.run_id, before=moment.at, below=4))
    assert [e.seq for e in store.transact_now(lambda tx: tx.whole_checkpoints(lease.run_id, limit=9))] == [4]
    store.transact_now(lambda tx: tx.cut_journal(lease.run_id, 2))
    assert [entry.seq for entry in store.transact_now(lambda tx: tx.journal(lease.run_id))] == [3, 4]


def test_a_stream_has_an_old_end(store: Store, moment: Moment) -> None:
    """Up to where all is older than a moment, below a number; what is cut is written down, and the counter stays."""
    world = populate(store, 3)
    silent, run, other = world.runs

    def put(*numbers: int) -> None:
        parts = [(run, PartRow(n, 0, PartKind.TEXT, b"part %d" % n)) for n in numbers]
        store.transact_now(lambda tx: (tx.put_streams([StreamRow(run, numbers[-1], 1, "")]), tx.add_parts(parts)))

    def old(before: int, below: int, limit: int) -> tuple[int, int, int]:
        found: tuple[int, int, int] = store.transact_now(
            lambda tx: tx.old_parts(run, before=before, below=below, limit=limit)
        )
        return found

    def oldest(after: int = 0, limit: int = 9) -> list[tuple[int, int | None]]:
        found: list[tuple[int, int | None]] = store.transact_now(lambda tx: tx.oldest_parts(after=after, limit=limit))
        return found

    store.transact_now(lambda tx: tx.put_streams([StreamRow(other, 4, 1, "")]))
    put(1, 2, 3)
    begun = moment.at
    moment.advance(10)
    put(4, 5)
    assert oldest() == sorted([(run, begun), (other, None)])
    assert oldest(after=min(run, other), limit=1) == [(max(run, other), None if other > run else begun)]
    assert old(moment.at, 6, 9) == (3, 3, 3 * len(b"part 1"))
    assert (old(moment.at + 1, 6, 9)[0], old(moment.at + 1, 5, 9)[0], old(moment.at, 6, 2)[0]) == (5, 4, 2)
    assert old(begun, 6, 9) == (0, 0, 0)
    rows = [PruneRow(run, 2, 9, "ana"), PruneRow(run, 3, 11, "ben")]
    for row in rows:
        store.transact_now(lambda tx, row=row: tx.cut_stream(row))
        assert store.transact_now(lambda tx: tx.stream_prunes([silent, run, other])) == {run: row}
    assert [part.n for part in store.transact_now(lambda tx: tx.parts(run, after=0, limit=9))] == [4, 5]
    assert store.transact_now(lambda tx: tx.streams([run]))[run].n == 5
    assert store.transact_now(lambda tx: tx.prunes([run])) == {}
    store.transact_now(lambda tx: tx.drop_of_runs([run], limit=99))
    assert store.transact_now(lambda tx: tx.stream_prunes([run])) == {}


def test_old_slots_go_and_the_newest_stays(store: Store, moment: Moment) -> None:
    """Slots that ended before a moment, oldest first, a bounded number; other schedules keep theirs."""
    rule = '{"cron": "* * * * *"}'
    rows = [ScheduleRow(0, name, "shop", rule, b"1", "default", 0, 1, 1, 1, 1, 2, 2) for name in ("a", "b")]
    store.transact_now(lambda tx: tx.insert_schedules(rows))
    known = store.transact_now(lambda tx: tx.get_schedules(["a", "b"]))
    one, two = known["a"].id, known["b"].id
    slots = [SlotRow(one, n, n + (90 if n == 20 else 0), moment.at, 1, Fate.SKIPPED, "") for n in (10, 20, 30, 40)]
    store.transact_now(lambda tx: tx.add_slots([*slots, slots[0]._replace(schedule=two)]))

    def old(schedule: int, before: int, limit: int = 9) -> list[int]:
        found: list[int] = store.transact_now(lambda tx: tx.old_slots(schedule, before=before, limit=limit))
        return found

    assert (old(one, 35), old(one, 99), old(one, 999)) == ([10, 30], [10, 30], [10, 20, 30])
    assert (old(one, 999, 2), old(two, 999), old(one, 10)) == ([10, 20], [], [])
    store.transact_now(lambda tx: tx.drop_slots(one, [10, 30]))
    left = store.transact_now(lambda tx: tx.newest_slots([one, two], limit=9))
    assert [[slot.slot_at for slot in found] for found in (left[one], left[two])] == [[40, 20], [10]]


def test_what_is_on_its_way_holds_a_run_back(store: Store) -> None:
    """A follow-up that was not worked off keeps its run."""
    world = populate(store, 2)
    run, other = world.runs
    store.transact_now(lambda tx: tx.add_follow_ups([run]))
    assert store.transact_now(lambda tx: tx.held_back([run, other])) == {run}
    assert store.transact_now(lambda tx: tx.insert_runs([NewRun(world.program, world.tenant, b"")]))
