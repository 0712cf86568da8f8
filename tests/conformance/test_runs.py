"""Programs, tenants, runs: how they are written, found, counted and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.world import LEASE, away, populate
from tests.stores import START_AT
from torpor.core.run import Flag, State
from torpor.errors import NotFound
from torpor.store.rows import NewRun, RunChange, RunFilter

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store, Tx


def test_programs_are_numbered_once(store: Store) -> None:
    """The same name and version is the same number; a moved source is written over."""
    first = store.transact_now(lambda tx: tx.intern_programs([("a", 1, "m:a"), ("a", 2, "m:a"), ("b", 1, "m:b")]))
    again = store.transact_now(lambda tx: tx.intern_programs([("b", 1, "n:b"), ("a", 1, "m:a")]))
    assert len(set(first)) == 3
    assert again == [first[2], first[0]]
    rows = store.transact_now(lambda tx: tx.programs())
    assert [(row.name, row.version, row.source) for row in rows] == [("a", 1, "m:a"), ("a", 2, "m:a"), ("b", 1, "n:b")]


def test_tenants_are_numbered_once(store: Store) -> None:
    """The default tenant is number one, and a repeated name is no second tenant."""
    assert store.transact_now(lambda tx: tx.intern_tenants(["default"])) == [1]
    numbers = store.transact_now(lambda tx: tx.intern_tenants(["x", "default", "x"]))
    assert numbers[0] == numbers[2] != 1 == numbers[1]


def test_a_new_run_is_ready_or_waits_until_its_time(store: Store) -> None:
    """A run's first state is entry 0 before turn 1, and its numbers come in the order of the batch."""
    world = populate(store, 0)
    later = START_AT + 5_000_000
    new = [
        NewRun(world.program, world.tenant, b"a", priority=-3),
        NewRun(world.program, world.tenant, b"b", due_at=later, parent=77),
    ]
    ids = store.transact_now(lambda tx: tx.insert_runs(new))
    runs = store.transact_now(lambda tx: tx.get_runs(ids))
    assert ids == sorted(ids)
    ready, waiting = runs[ids[0]], runs[ids[1]]
    assert (ready.state, ready.due_at, ready.created_at, ready.priority) == (State.READY, START_AT, START_AT, -3)
    assert (waiting.state, waiting.due_at, waiting.parent) == (State.WAITING, later, 77)
    assert (ready.epoch, ready.head, ready.inbox, ready.seen, ready.branch, ready.flags) == (0, 0, 0, 0, 0, Flag.NONE)
    states = store.transact_now(lambda tx: tx.states(ids))
    assert [tuple(states[run]) for run in ids] == [(ids[0], 0, START_AT, 1, b"a"), (ids[1], 0, START_AT, 1, b"b")]


def test_an_empty_batch_is_no_error(store: Store) -> None:
    """Batch verbs take nothing as well as something."""
    assert store.transact_now(lambda tx: tx.insert_runs([])) == []
    assert store.transact_now(lambda tx: tx.get_runs([])) == {}
    assert store.transact_now(lambda tx: tx.append([], lease_micros=LEASE)) == {}
    assert store.transact_now(lambda tx: tx.leave([])) == {}
    assert store.transact_now(lambda tx: tx.add_signals([])) == []


def test_the_first_of_two_equal_keys_wins(store: Store) -> None:
    """A key binds one run until it is freed; who lost drops what it inserted."""
    one, two = populate(store, 2).runs
    assert store.transact_now(lambda tx: tx.claim_keys([(b"k1", one)])) == {b"k1": one}
    assert store.transact_now(lambda tx: tx.claim_keys([(b"k2", two), (b"k1", two)])) == {b"k2": two, b"k1": one}
    store.transact_now(lambda tx: tx.drop_runs([two]))
    assert list(store.transact_now(lambda tx: tx.get_runs([one, two]))) == [one]
    assert list(store.transact_now(lambda tx: tx.states([one, two]))) == [one]


def test_a_key_is_freed_by_whom_it_binds_only(store: Store) -> None:
    """Freed, it binds the next one; in the name of a run that it does not bind nothing is freed."""
    one, two = populate(store, 2).runs
    store.transact_now(lambda tx: tx.claim_keys([(b"k1", one), (b"k2", one)]))
    store.transact_now(lambda tx: tx.free_keys([(b"k1", two), (b"k3", one)]))
    assert store.transact_now(lambda tx: tx.claim_keys([(b"k1", two)])) == {b"k1": one}
    store.transact_now(lambda tx: tx.free_keys([(b"k1", one)]))
    assert store.transact_now(lambda tx: tx.claim_keys([(b"k1", two), (b"k2", two)])) == {b"k1": two, b"k2": one}
    store.transact_now(lambda tx: tx.free_keys([]))


def test_runs_are_listed_newest_first(store: Store) -> None:
    """A filter of states and programs, a page at a time."""
    world = populate(store, 6)
    other = store.transact_now(lambda tx: tx.intern_programs([("other", 1, "m:o")]))[0]
    more = store.transact_now(lambda tx: tx.insert_runs([NewRun(other, 1, b"")]))
    leases = [claimed.lease for claimed in world.claim(3)]
    world.leave([away(leases[0], after=State.FAILED), away(leases[1])])

    def listed(wanted: RunFilter) -> list[int]:
        return [run.id for run in store.transact_now(lambda tx: tx.list_runs(wanted))]

    newest = [*more, *reversed(world.runs)]
    assert listed(RunFilter()) == newest
    assert listed(RunFilter(limit=2)) == newest[:2]
    assert listed(RunFilter(before=world.runs[2])) == [world.runs[1], world.runs[0]]
    assert listed(RunFilter(programs=[other])) == more
    assert listed(RunFilter(states=[State.FAILED, State.WAITING])) == [world.runs[1], world.runs[0]]
    assert listed(RunFilter(states=[State.READY], programs=[world.program], limit=2)) == newest[1:3]
    assert listed(RunFilter(states=[State.RUNNING], before=world.runs[2])) == []
    assert listed(RunFilter(states=[])) == []


def test_counts_are_capped(store: Store) -> None:
    """A count says how many, or that there are at least so many."""
    world = populate(store, 5)
    world.claim(1)
    states = [State.READY, State.RUNNING, State.FAILED]
    counted = store.transact_now(lambda tx: tx.count_runs(states, most=3))
    assert counted == {State.READY: 3, State.RUNNING: 1, State.FAILED: 0}


def test_changes_touch_only_what_they_name(store: Store) -> None:
    """None leaves a column alone; inbox and takeovers are added."""
    one, two = populate(store, 2).runs
    before = store.transact_now(lambda tx: tx.get_runs([one, two], lock=True))
    changes = [
        RunChange(one, flags=Flag.CANCEL, inbox=2, takeovers=1, stalls=4),
        RunChange(two, state=State.WAITING, due_at=START_AT + 9, head=3, program=8),
    ]
    store.transact_now(lambda tx: tx.change_runs(changes))
    after = store.transact_now(lambda tx: tx.get_runs([one, two]))
    assert after[one] == before[one]._replace(flags=Flag.CANCEL, inbox=2, takeovers=1, stalls=4)
    assert after[two] == before[two]._replace(state=State.WAITING, due_at=START_AT + 9, head=3, program=8)
    store.transact_now(lambda tx: tx.change_runs([RunChange(one, inbox=1, takeovers=1)]))
    assert store.transact_now(lambda tx: tx.get_runs([one]))[one].inbox == 3


def test_a_moment_changes_without_the_state_and_the_state_without_the_moment(store: Store) -> None:
    """None leaves a column alone, each by itself."""
    world = populate(store, 1)
    run = world.runs[0]
    store.transact_now(lambda tx: tx.change_runs([RunChange(run, due_at=START_AT + 7)]))
    assert store.transact_now(lambda tx: tx.get_runs([run]))[run].due_at == START_AT + 7
    store.transact_now(lambda tx: tx.change_runs([RunChange(run, state=State.WAITING)]))
    row = store.transact_now(lambda tx: tx.get_runs([run]))[run]
    assert (row.state, row.due_at) == (State.WAITING, START_AT + 7)


def test_a_batch_of_changes_names_each_run_once(store: Store) -> None:
    """What the second change would find depends on the first: one of the stores would take either."""
    world = populate(store, 1)
    twice = [RunChange(world.runs[0], inbox=1)] * 2
    with pytest.raises(AssertionError, match="G1"):
        store.transact_now(lambda tx: tx.change_runs(twice))


def test_a_batch_of_any_size_is_whole(store: Store) -> None:
    """Statements for many rows are filled up and cut in pieces: none is lost at the seams, none comes twice."""
    world = populate(store, 0)
    new = [NewRun(world.program, world.tenant, b"%d" % n) for n in range(1030)]
    for size in (1, 2, 3, 511, 512, 513, 1030):
        ids = store.transact_now(lambda tx, size=size: tx.insert_runs(new[:size]))
        assert len(set(ids)) == size
        states = store.transact_now(lambda tx, ids=ids: tx.states(ids))
        assert [states[run].body for run in ids] == [run.body for run in new[:size]]
        store.transact_now(lambda tx, ids=ids: tx.change_runs([RunChange(run, inbox=2) for run in ids]))
        assert {run.inbox for run in store.transact_now(lambda tx, ids=ids: tx.get_runs(ids)).values()} == {2}


def test_due_runs_come_earliest_first(store: Store, moment: Moment) -> None:
    """Only waiting runs with a due time that has come, and the next one is known."""
    world = populate(store, 0)
    dues = [30, 10, 20, None]
    new = [NewRun(world.program, 1, b"", due_at=None if due is None else START_AT + due) for due in dues]
    ids = store.transact_now(lambda tx: tx.insert_runs(new))
    assert store.transact_now(lambda tx: tx.next_due()) == START_AT + 10
    assert store.transact_now(lambda tx: tx.due_runs(before=START_AT + 9, limit=9)) == []
    assert store.transact_now(lambda tx: tx.due_runs(before=START_AT + 30, limit=2)) == [ids[1], ids[2]]
    moment.advance(1)
    store.transact_now(lambda tx: tx.change_runs([RunChange(run, state=State.READY) for run in ids]))
    assert store.transact_now(lambda tx: tx.next_due()) is None


def test_a_transaction_reads_the_clock_once(store: Store, moment: Moment) -> None:
    """Everything in one transaction happens at one moment, whatever the clock does meanwhile."""
    world = populate(store, 0)

    def twice(tx: Tx) -> None:
        first = tx.now()
        moment.advance(10)
        assert tx.now() == first == START_AT
        ids = tx.insert_runs([NewRun(world.program, 1, b"")])
        assert tx.get_runs(ids)[ids[0]].created_at == START_AT

    store.transact_now(twice)
    assert store.transact_now(lambda tx: tx.now()) == START_AT + 10_000_000


def test_what_an_operation_raises_takes_everything_back(store: Store) -> None:
    """A transaction is whole or was not."""
    world = populate(store, 1)

    def fails(tx: Tx) -> None:
        tx.put_meta("k", "v")
        tx.change_runs([RunChange(world.runs[0], state=State.FAILED)])
        tx.get_runs(world.runs)
        raise NotFound("nothing")

    with pytest.raises(NotFound):
        store.transact_now(fails)
    assert store.transact_now(lambda tx: tx.get_meta("k")) is None
    assert world.state(world.runs[0]) is State.READY
