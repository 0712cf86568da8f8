"""Waits, decisions and signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.world import away, populate
from tests.stores import START_AT
from torpor.core.run import State
from torpor.core.wait import Signal, WaitKind
from torpor.store.rows import Kept, NewSignal, WaitRow

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store


def _wait(run: int, slot: int, seq: int, kind: WaitKind, title: str = "t") -> WaitRow:
    return WaitRow(run, slot, seq, kind, START_AT + seq, None, title, None)


def test_a_slot_is_used_again_when_its_wait_is_over(store: Store) -> None:
    """Open waits come in the order of their entries; ended ones only when asked for."""
    world = populate(store, 2)
    one, two = world.runs
    first = [_wait(one, 0, 4, WaitKind.TIMER), _wait(one, 1, 2, WaitKind.APPROVAL), _wait(two, 0, 1, WaitKind.MESSAGE)]
    store.transact_now(lambda tx: tx.put_waits(first))
    assert store.transact_now(lambda tx: tx.waits([one, two])) == [first[1], first[0], first[2]]
    store.transact_now(lambda tx: tx.end_waits([(one, 0), (two, 0)]))
    assert store.transact_now(lambda tx: tx.waits([one, two])) == [first[1]]
    ended = [first[1], first[0]._replace(over=True), first[2]._replace(over=True)]
    assert store.transact_now(lambda tx: tx.waits([one, two], over=True)) == ended
    again = _wait(one, 0, 9, WaitKind.APPROVAL)
    store.transact_now(lambda tx: tx.put_waits([again]))
    assert store.transact_now(lambda tx: tx.waits([one], over=True)) == [first[1], again]


def test_the_first_decision_wins(store: Store, moment: Moment) -> None:
    """A second one, one for an older wait of the slot, and one for an ended wait change nothing (G10)."""
    world = populate(store, 1)
    run = world.runs[0]
    store.transact_now(
        lambda tx: tx.put_waits([_wait(run, 0, 3, WaitKind.APPROVAL), _wait(run, 1, 4, WaitKind.APPROVAL)])
    )
    at = moment.advance(1)
    assert not store.transact_now(lambda tx: tx.answer_wait(run, 0, 2, b"older"))
    assert not store.transact_now(lambda tx: tx.answer_wait(run, 7, 3, b"nowhere"))
    assert store.transact_now(lambda tx: tx.answer_wait(run, 0, 3, b"yes"))
    assert not store.transact_now(lambda tx: tx.answer_wait(run, 0, 3, b"no"))
    store.transact_now(lambda tx: tx.end_waits([(run, 1)]))
    assert not store.transact_now(lambda tx: tx.answer_wait(run, 1, 4, b"late"))
    answered = store.transact_now(lambda tx: tx.waits([run]))
    assert [(wait.answered_at, wait.answer) for wait in answered] == [(at, b"yes")]


def test_people_see_what_waits_for_them(store: Store) -> None:
    """Open approvals and attention, oldest entry first, nothing else."""
    world = populate(store, 2)
    one, two = world.runs
    waits = [
        _wait(one, 0, 5, WaitKind.APPROVAL, "later"),
        _wait(two, 0, 3, WaitKind.ATTENTION, "first"),
        _wait(two, 1, 4, WaitKind.TIMER),
        _wait(two, 2, 1, WaitKind.APPROVAL),
    ]
    store.transact_now(lambda tx: tx.put_waits(waits))
    store.transact_now(lambda tx: tx.answer_wait(two, 2, 1, b"yes"))
    assert [wait.title for wait in store.transact_now(lambda tx: tx.people_waits(limit=9))] == ["first", "later"]
    assert len(store.transact_now(lambda tx: tx.people_waits(limit=1))) == 1


def test_a_signal_wakes_and_is_counted(store: Store, moment: Moment) -> None:
    """Each new signal counts up; a waiting run becomes ready now, any other stays what it is (G7)."""
    world = populate(store, 3)
    ready, running, waiting = world.runs
    store.transact_now(lambda tx: tx.drop_runs([ready]))
    leases = {claimed.run.id: claimed.lease for claimed in world.claim()}
    world.leave([away(leases[waiting], due_at=START_AT + 99_000_000)])
    at = moment.advance(1)
    assert world.signal(NewSignal(running, "go", b"1"), NewSignal(waiting, "go", b"2", sender="me")) == [Kept.NEW] * 2
    runs = store.transact_now(lambda tx: tx.get_runs([running, waiting]))
    assert (runs[running].state, runs[running].inbox) == (State.RUNNING, 1)
    assert (runs[waiting].state, runs[waiting].inbox, runs[waiting].due_at) == (State.READY, 1, at)
    claimed = world.claim()[0]
    assert claimed.unread == [Signal(1, at, "go", b"2", "me")]
    assert claimed.run.inbox == 1


def test_a_batch_of_signals_keeps_its_order(store: Store) -> None:
    """Several signals to one run in one batch are numbered in the order of the batch."""
    world = populate(store, 2)
    one, two = world.runs
    names = [NewSignal(run, f"{name}", name.encode()) for name, run in zip("abcd", [two, one, two, one], strict=True)]
    assert world.signal(*names) == [Kept.NEW] * 4
    unread = store.transact_now(lambda tx: tx.unread([one, two]))
    assert {run: [(s.seq, s.name) for s in signals] for run, signals in unread.items()} == {
        one: [(1, "b"), (2, "d")],
        two: [(1, "a"), (2, "c")],
    }


def test_a_signal_for_a_run_of_another_program_is_not_kept(store: Store) -> None:
    """A run is addressed by its program's name too: with another one it is no run that anybody knows."""
    world = populate(store, 2)
    one, two = world.runs
    signals = [NewSignal(one, "go", b"", program="audits"), NewSignal(two, "go", b"", program="audit")]
    assert world.signal(*signals) == [Kept.NO_RUN, Kept.NEW]
    runs, unread = store.transact_now(lambda tx: (tx.get_runs([one, two]), tx.unread([one, two])))
    assert (runs[one].inbox, runs[two].inbox, list(unread)) == (0, 1, [two])


def test_a_duplicate_counts_nothing_and_wakes_nobody(store: Store) -> None:
    """A key that the run has seen, in the same batch or before; another run's equal key is another signal."""
    world = populate(store, 2)
    one, two = world.runs
    sent = world.signal(
        NewSignal(one, "go", b"1", "k"), NewSignal(one, "go", b"2", "k"), NewSignal(two, "go", b"3", "k")
    )
    assert sent == [Kept.NEW, Kept.DUPLICATE, Kept.NEW]
    lease = next(claimed.lease for claimed in world.claim() if claimed.run.id == one)
    world.leave([away(lease, seen=1)])
    assert world.signal(NewSignal(one, "go", b"4", "k")) == [Kept.DUPLICATE]
    run = store.transact_now(lambda tx: tx.get_runs([one]))[one]
    assert (run.state, run.inbox) == (State.WAITING, 1)
    assert world.signal(NewSignal(one, "go", b"5", "k"), NewSignal(one, "go", b"6", "n")) == [Kept.DUPLICATE, Kept.NEW]
    run = store.transact_now(lambda tx: tx.get_runs([one]))[one]
    assert (run.state, run.inbox) == (State.READY, 2)
    assert [s.body for s in store.transact_now(lambda tx: tx.unread([one]))[one]] == [b"1", b"6"]


@pytest.mark.parametrize("end", [State.COMPLETED, State.FAILED, State.CANCELLED])
def test_an_ended_run_keeps_no_signal(store: Store, end: State) -> None:
    """A signal to a run that has ended, or that never was, is told so, and its neighbours in the batch are kept."""
    world = populate(store, 2)
    one, two = world.runs
    lease = next(claimed.lease for claimed in world.claim() if claimed.run.id == one)
    world.leave([away(lease, after=end)])
    sent = [
        NewSignal(one, "go", b""),
        NewSignal(999, "go", b"", "k"),
        NewSignal(two, "go", b""),
        NewSignal(999, "go", b"", "k"),
    ]
    assert world.signal(*sent) == [Kept.FINAL, Kept.NO_RUN, Kept.NEW, Kept.NO_RUN]
    assert list(store.transact_now(lambda tx: tx.unread([one, two, 999]))) == [two]
    assert world.state(one) is end
