"""Children: started once under their parent's lock, told of once, cancelled with it in bounded transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.world import NOTE, OUTCOME, hand, proposal
from torpor.core.commit import MessageKind, NewMessage, NewWait
from torpor.core.family import done_name, members_of, pack_members, started_name, wishes, wishes_of
from torpor.core.ids import code
from torpor.core.journal import Entry, Kind
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.engine import effects, follow_ups, runs, waits
from torpor.engine.sweeps import Swept
from torpor.store import values
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from tests.engine.world import Hand
    from torpor.core.lease import Lease
    from torpor.store.protocol import Store
    from torpor.store.rows import RunRow

WAIT = Entry(Kind.WAIT, "p:shop#1", b"{}")
RESULT = Entry(Kind.OUTCOME, None, b"42")


def spawn(key: str, kind: MessageKind = MessageKind.SPAWN, detail: str = "", program: str = "shop") -> NewMessage:
    """Return the message that asks for a child."""
    return NewMessage(0, program, key, b"7", kind, detail)


def parent_of(one: Hand, *messages: NewMessage) -> Lease:
    """Return the lease of a running run that has asked for children; they were not started yet."""
    one.start()
    lease = one.claim()[0].lease
    assert one.commit(proposal(lease, WAIT, messages=messages))[0].refused is None
    return lease._replace(head=1)


def told(one: Hand, run: int) -> dict[str, object]:
    """Return what a run has been told and did not read yet."""
    unread = one.do(lambda tx: tx.unread([run])).get(run, [])
    return {signal.name: values.plain(signal.body) for signal in unread}


def children(one: Hand, run: int) -> list[RunRow]:
    """Return a run's children."""
    found: list[RunRow] = one.do(lambda tx: tx.children(run, limit=5000))
    return found


def settled(one: Hand) -> None:
    """Work off every follow-up."""
    while one.do(follow_ups.settle).done:
        pass


def test_a_child_is_started_once(store: Store) -> None:
    """With its parent's tenant and priority; both know of each other; the message is gone with it (G7)."""
    one = hand(store)
    lease = parent_of(one, spawn("k1"), spawn("k2", MessageKind.SPAWN_INDEPENDENT))
    assert one.do(waits.deliver) == Swept(2)
    assert one.do(waits.deliver) == Swept()
    bound, free = children(one, lease.run_id)
    assert (bound.flags, free.flags) == (Flag.CHILD, Flag.CHILD | Flag.INDEPENDENT)
    assert (bound.state, bound.parent) == (State.READY, lease.run_id)
    assert Flag.FAMILY in one.run(lease.run_id).flags
    said = told(one, lease.run_id)
    assert said == {started_name(key): {"run": f"shop-{code(run.id)}"} for key, run in (("k1", bound), ("k2", free))}


def test_a_parent_hears_of_its_children_in_its_own_order(store: Store) -> None:
    """One with an unknown program is told between the others, not before them."""
    one = hand(store)
    lease = parent_of(one, spawn("k1"), spawn("k2", program="none"), spawn("k3"))
    one.do(waits.deliver)
    assert list(told(one, lease.run_id)) == [started_name(key) for key in ("k1", "k2", "k3")]


def test_a_message_that_comes_twice_is_one_child(store: Store) -> None:
    """The same call, or the same key of the parent's own, finds the child that is there."""
    one = hand(store)
    own = wishes("mine", None)
    lease = parent_of(one, spawn("k1"), spawn("k1"), spawn("k2", detail=own), spawn("k3", detail=own))
    one.do(waits.deliver)
    assert len(children(one, lease.run_id)) == 2
    said = told(one, lease.run_id)
    assert said[started_name("k2")] == said[started_name("k3")] != said[started_name("k1")]
    assert len(one.claim()) == 2


def test_a_child_belongs_to_the_trace_it_was_started_in(store: Store) -> None:
    """If there is one: it is said beside the key and the budget, and the first stays."""
    one = hand(store)
    traced = [wishes("mine", None, f"00-{letter}-1-01") for letter in "ab"]
    lease = parent_of(one, spawn("k1", detail=traced[0]), spawn("k2"))
    one.do(waits.deliver)
    first, second = (run.id for run in children(one, lease.run_id))
    assert one.do(lambda tx: tx.traces([first, second])) == {first: "00-a-1-01"}
    assert wishes_of(traced[1]) == ("mine", None, "00-b-1-01")
    assert wishes_of(wishes("a@b:c", 5)) == ("a@b:c", 5, "")
    assert wishes_of(wishes("", 5, "00-b")) == ("", 5, "00-b")
    assert wishes_of(wishes("", None)) == ("", None, "")


@pytest.mark.parametrize("how", ["cancelled", "ended"])
def test_a_child_is_refused(store: Store, how: str) -> None:
    """Once cancel was asked, or the parent ended, none is started, but one that is independent (G12)."""
    one = hand(store)
    lease = parent_of(one, spawn("k1"), spawn("k2", MessageKind.SPAWN_INDEPENDENT))
    if how == "cancelled":
        one.do(runs.cancel, lease.run_id)
    else:
        one.commit(proposal(lease, RESULT, after=State.COMPLETED))
    assert one.do(waits.deliver).done == 2
    assert [run.flags for run in children(one, lease.run_id)] == [Flag.CHILD | Flag.INDEPENDENT]
    assert Flag.FAMILY not in one.run(lease.run_id).flags


def test_an_unknown_program_is_told(store: Store) -> None:
    """The parent hears of it and of what there is; nothing is started."""
    one = hand(store)
    lease = parent_of(one, spawn("k1", program="nothing"))
    one.do(waits.deliver)
    assert told(one, lease.run_id) == {started_name("k1"): {"unknown": "nothing", "known": ["shop"]}}
    assert children(one, lease.run_id) == []


def test_nothing_acts_below_a_cancel(store: Store) -> None:
    """The gate sees it before the cascade has come down; an independent child, and all below it, acts on (G12)."""
    one = hand(store)
    top = parent_of(one, spawn("k1"), spawn("k2", MessageKind.SPAWN_INDEPENDENT))
    one.do(waits.deliver)
    bound, free = sorted(one.claim(), key=lambda claimed: claimed.run.id)
    one.commit(*(proposal(claimed.lease, WAIT, messages=[spawn("k3")]) for claimed in (bound, free)))
    one.do(waits.deliver)
    below = [claimed.run.id for claimed in one.claim()]
    everyone = [top.run_id, bound.run.id, free.run.id, *below]
    assert not any(Flag.CANCEL in lease.flags for lease in one.do(effects.look, everyone).values())
    one.do(runs.cancel, top.run_id)
    stopped = [run for run, lease in one.do(effects.look, everyone).items() if Flag.CANCEL in lease.flags]
    below_bound = next(run for run in below if one.run(run).parent == bound.run.id)
    assert stopped == [top.run_id, bound.run.id, below_bound]
    assert Flag.CANCEL not in one.run(bound.run.id).flags, "the cascade was not there yet"


@pytest.mark.parametrize("after", [State.COMPLETED, State.FAILED, State.CANCELLED])
def test_an_end_is_told_once(store: Store, after: State) -> None:
    """Whatever the end, with the body of the last entry; a note that is worked off twice tells it once (G7)."""
    one = hand(store)
    parent = parent_of(one, spawn("k1")).run_id
    one.do(waits.deliver)
    child = one.claim()[0].lease
    entry = RESULT if after is State.COMPLETED else Entry(Kind.FAILURE, None, b"42")
    one.commit(proposal(child, entry, after=after))
    for _ in range(2):
        settled(one)
        one.do(lambda tx: tx.add_follow_ups([child.run_id]))
    settled(one)
    unread = [s for s in one.do(lambda tx: tx.unread([parent]))[parent] if s.name == done_name(child.run_id)]
    assert [(signal.body, signal.sender) for signal in unread] == [(b"42", after.word)]
    assert one.do(lambda tx: tx.follow_ups(limit=9)) == []


def test_an_end_without_family_leaves_no_note(store: Store) -> None:
    """Most runs have none, and nothing is written for them."""
    one = hand(store)
    one.start()
    one.commit(proposal(one.claim()[0].lease, OUTCOME, after=State.COMPLETED))
    assert one.do(lambda tx: tx.follow_ups(limit=9)) == []


def test_a_parent_of_a_hundred_is_woken_once(store: Store) -> None:
    """It sleeps until the last of those it waits for ended; one that it does not wait for wakes nobody (G20)."""
    one = hand(store)
    parent = parent_of(one, *(spawn(f"k{n}") for n in range(101)))
    one.do(waits.deliver)
    *awaited, other = [run.id for run in children(one, parent.run_id)]
    wait = NewWait(0, 1, WaitKind.CHILDREN, None, "t", need=len(awaited), members=pack_members(awaited))
    seen = one.run(parent.run_id).inbox
    assert one.commit(proposal(parent, NOTE, after=State.WAITING, waits=[wait], seen=seen))[0].state is State.WAITING
    states = []
    for claimed in sorted(one.claim(200), key=lambda claimed: claimed.run.id != other):
        one.commit(proposal(claimed.lease, RESULT, after=State.COMPLETED))
        one.do(follow_ups.settle)
        states.append(one.run(parent.run_id).state)
    assert states == [State.WAITING] * 100 + [State.READY]
    assert one.do(lambda tx: tx.waits([parent.run_id]))[0].need == 0
    assert members_of(wait.members) == set(awaited)


def test_a_cascade_is_bounded_and_a_crash_cuts_nothing(store: Store) -> None:
    """A thousand children, and a grandchild each for some: so many at a time, and the note stays until all are seen to."""
    one = hand(store)
    parent = parent_of(one, *(spawn(f"k{n}") for n in range(1000)), spawn("free", MessageKind.SPAWN_INDEPENDENT))
    while one.do(waits.deliver).done:
        pass
    claimed = one.claim(200)
    for n, child in enumerate(claimed[:7]):
        one.commit(proposal(child.lease, WAIT, messages=[spawn(f"grand{n}")]))
    one.do(waits.deliver)
    said = one.do(runs.cancel, parent.run_id)
    assert said == runs.Cancelled(State.RUNNING, 1000, more=True)

    def live() -> int:
        rows: list[RunRow] = one.do(lambda tx: tx.list_runs(RunFilter(limit=2000)))
        return sum(1 for run in rows if Flag.CANCEL not in run.flags)

    before, rounds = live(), 0
    while True:
        with pytest.raises(ZeroDivisionError):  # killed before its commit: nothing of it is there
            one.do(lambda tx: (follow_ups.settle(tx), 1 // 0))
        assert live() == before
        if not one.do(follow_ups.settle).done:
            break
        assert 0 <= before - live() <= follow_ups.SWEEP
        before, rounds = live(), rounds + 1
    assert before == 1, "the independent one goes on"
    assert 11 <= rounds <= 14
    assert one.do(lambda tx: tx.follow_ups(limit=9)) == []
