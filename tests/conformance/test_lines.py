"""Lines, places, deadlines, cancels, traces and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.world import away, populate
from torpor.core.run import Flag, State
from torpor.store.rows import CompensationRow, InLine, Kept, LineRow, NewRun, NewSignal, PlaceRow, RunChange

if TYPE_CHECKING:
    from torpor.store.protocol import Store


def test_a_line_is_opened_once_and_its_limit_is_the_last_said(store: Store) -> None:
    """A higher limit stirs it, a lower one does not; who is in it is counted."""
    do = store.transact_now
    line = do(lambda tx: tx.open_lines({"a": 2, "b": 1}))["a"]
    assert (line.name, line.places, line.held, line.queued) == ("a", 2, 0, False)
    places = [
        PlaceRow(1, line.id, 0, 1),
        PlaceRow(2, line.id, 5, 0),
        PlaceRow(3, line.id, 1, 0),
        PlaceRow(4, line.id, 0, 2),
    ]
    do(lambda tx: tx.put_places(places))
    assert do(lambda tx: tx.stirred_lines(limit=5)) == [line.id]
    assert do(lambda tx: tx.queue(line.id, limit=5)) == [3, 2]
    assert do(lambda tx: tx.in_line([1, 2, 3, 4, 9], most=9)) == {
        1: InLine("a", 2, True, 0),  # noqa: FBT003 - a row
        2: InLine("a", 2, False, 2),  # noqa: FBT003
        3: InLine("a", 2, False, 1),  # noqa: FBT003
        4: InLine("a", 2, False, 0),  # noqa: FBT003
    }
    do(lambda tx: tx.calm_line(line.id))
    assert do(lambda tx: tx.open_lines({"a": 1})) == {"a": LineRow(line.id, "a", 1, 1, True)}  # noqa: FBT003
    assert do(lambda tx: tx.stirred_lines(limit=5)) == []
    do(lambda tx: tx.open_lines({"a": 3}))
    assert do(lambda tx: tx.stirred_lines(limit=5)) == [line.id]
    do(lambda tx: tx.calm_line(line.id))
    do(lambda tx: tx.hold_places([3]))
    do(lambda tx: tx.leave_lines([1, 3]))
    do(lambda tx: tx.arrive([4]))
    assert do(lambda tx: tx.lock_line(line.id)) == LineRow(line.id, "a", 3, 0, True)  # noqa: FBT003
    assert do(lambda tx: tx.queue(line.id, limit=5)) == [4, 2]
    assert do(lambda tx: tx.stirred_lines(limit=5)) == [line.id]


def test_who_waits_for_a_place_is_not_woken_by_a_signal(store: Store) -> None:
    """It is kept; the run sleeps on, without a moment."""
    world = populate(store, 1)
    (run,) = world.runs
    store.transact_now(lambda tx: tx.queue_runs([run]))
    assert world.signal(NewSignal(run, "go", b"1")) == [Kept.NEW]
    row = store.transact_now(lambda tx: tx.get_runs([run]))[run]
    assert (row.state, row.due_at, row.flags, row.inbox) == (State.WAITING, None, Flag.LINE | Flag.QUEUED, 1)
    assert store.transact_now(lambda tx: tx.next_due()) is None


def test_a_cancelled_run_sleeps_only_inside_its_compensations(store: Store) -> None:
    """Parked with UNDOING it waits although it was cancelled; without, it is ready at once (G12)."""
    world = populate(store, 2)
    one, two = (claimed.lease for claimed in world.claim())
    store.transact_now(lambda tx: tx.change_runs([RunChange(run, flags=Flag.CANCEL) for run in world.runs]))
    assert world.leave([away(one, flags=Flag.UNDOING), away(two)]) == {
        one.run_id: State.WAITING,
        two.run_id: State.READY,
    }
    (again,) = world.claim()
    assert (again.run.id, again.run.flags) == (two.run_id, Flag.CANCEL)


def test_deadlines_come_earliest_first(store: Store) -> None:
    """Each once; the first that was said stays."""
    do = store.transact_now
    do(lambda tx: tx.put_deadlines([(7, 30), (8, 10), (9, 20)]))
    do(lambda tx: tx.put_deadlines([(8, 99)]))
    assert do(lambda tx: tx.due_deadlines(before=20, limit=9)) == [8, 9]
    assert do(lambda tx: tx.deadlines([7, 8, 1])) == {7: 30, 8: 10}
    assert do(lambda tx: tx.next_deadline()) == 10
    do(lambda tx: tx.drop_deadlines([8, 9, 7]))
    assert do(lambda tx: tx.next_deadline()) is None


def test_the_first_reason_of_a_cancel_stays(store: Store) -> None:
    """Others change nothing."""
    store.transact_now(lambda tx: tx.put_cancels([(1, "too dear"), (2, "late")]))
    store.transact_now(lambda tx: tx.put_cancels([(1, "another")]))
    assert store.transact_now(lambda tx: tx.cancels([1, 2, 3])) == {1: "too dear", 2: "late"}


def test_the_first_traceparent_of_a_run_stays(store: Store) -> None:
    """Others change nothing."""
    store.transact_now(lambda tx: tx.put_traces([(2, "00-b"), (1, "00-a")]))
    store.transact_now(lambda tx: tx.put_traces([(1, "00-c")]))
    assert store.transact_now(lambda tx: tx.traces([1, 2, 3])) == {1: "00-a", 2: "00-b"}


def test_compensations_are_kept_in_order_and_taken_back_by_name(store: Store) -> None:
    """Those of one run, oldest first."""
    rows = [
        CompensationRow(1, 9, "1:k:a", b"a"),
        CompensationRow(1, 4, "1:k:b", b"b"),
        CompensationRow(2, 1, "1:k:a", b"c"),
    ]
    store.transact_now(lambda tx: tx.add_compensations(rows))
    assert store.transact_now(lambda tx: tx.compensations(1)) == [rows[1], rows[0]]
    store.transact_now(lambda tx: tx.drop_compensations([(1, "1:k:a"), (2, "none")]))
    assert store.transact_now(lambda tx: tx.compensations(1)) == [rows[1]]
    assert store.transact_now(lambda tx: tx.compensations(2)) == [rows[2]]


def test_a_program_has_a_number_for_each_tag(store: Store) -> None:
    """The same under the same tag; a run carries one of them."""
    do = store.transact_now
    plain = do(lambda tx: tx.intern_programs([("p", 1, "m:p"), ("p", 2, "m:p")]))
    tagged = do(lambda tx: tx.intern_programs([("p", 2, "m:p")], tag="gpu"))
    assert do(lambda tx: tx.intern_programs([("p", 2, "n:p")], tag="gpu")) == tagged
    rows = {row.id: row for row in do(lambda tx: tx.programs())}
    assert [rows[number].tag for number in (*plain, *tagged)] == ["", "", "gpu"]
    assert (rows[tagged[0]].source, rows[plain[1]].source) == ("n:p", "m:p")
    tenant = do(lambda tx: tx.intern_tenants(["default"]))[0]
    (run,) = do(lambda tx: tx.insert_runs([NewRun(tagged[0], tenant, b"x")]))
    assert do(lambda tx: tx.get_runs([run]))[run].program == tagged[0]
