"""Each operation of the engine on every store, with the clock moved by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.world import INTENT, NOTE, OUTCOME, hand, proposal
from torpor.core.commit import NewMessage, NewWait
from torpor.core.journal import Entry, Kind
from torpor.core.lease import Fence, LostAnswer, Proof
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.engine import effects, leases, runs, waits
from torpor.engine.commit import find_out
from torpor.errors import Conflict, NotFound, UsageError
from torpor.store import values
from torpor.store.rows import Kept, NewSignal

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store

APPROVAL = frozenset({WaitKind.APPROVAL})
ASKED = Entry(Kind.WAIT, "a:approval#1", b"{}")


def test_starting_is_whole_or_nothing(store: Store) -> None:
    """One unknown program in a batch, and nothing is started."""
    one = hand(store)
    with pytest.raises(UsageError, match="no program named"):
        one.do(runs.start, [runs.Start("shop", b"1"), runs.Start("nothing", b"1")])
    assert one.claim() == []


def test_equal_keys_in_one_batch_are_one_run(store: Store) -> None:
    """The later one is the first one's run; a key of another program is another key."""
    one = hand(store)
    started = one.do(
        runs.start, [runs.Start("shop", b"1", key="k"), runs.Start("shop", b"2", key="k"), runs.Start("shop", b"3")]
    )
    assert started[0].run_id == started[1].run_id != started[2].run_id
    assert [s.created for s in started] == [True, False, True]
    assert len(one.claim()) == 2


def test_a_start_in_the_future_waits(store: Store, moment: Moment) -> None:
    """Nothing is ready before its time, and then once (G8)."""
    one = hand(store)
    due = moment.at + 5_000_000
    one.do(runs.start, [runs.Start("shop", b"1", due_at=due)])
    assert one.do(waits.fire_timers).done == 0
    assert one.claim() == []
    moment.advance(5)
    assert one.do(waits.fire_timers).done == 1
    assert one.do(waits.fire_timers).done == 0
    assert len(one.claim()) == 1


@pytest.mark.parametrize("state", ["ready", "waiting", "running", "completed"])
def test_cancel_in_each_state(store: Store, state: str) -> None:
    """Ready and running runs are marked, a waiting one is made ready, an ended one stays (G12)."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease if state != "ready" else None
    if lease is not None:
        if state == "waiting":
            one.commit(proposal(lease, after=State.WAITING))
        if state == "completed":
            one.commit(proposal(lease, after=State.COMPLETED))
    said = one.do(runs.cancel, run)
    assert said.state is (State.READY if state == "waiting" else State[state.upper()])
    assert (Flag.CANCEL in one.run(run).flags) == (state != "completed")
    if state == "running" and lease is not None:
        refused, kept = one.commit(proposal(lease, INTENT)), one.commit(proposal(lease, NOTE))
        assert refused[0].refused is Fence.CANCELLED
        assert Flag.CANCEL in refused[0].flags
        assert kept[0].refused is None
        assert Flag.CANCEL in kept[0].flags
    if state in {"ready", "waiting"}:
        assert Flag.CANCEL in one.claim()[0].lease.flags
    with pytest.raises(NotFound):
        one.do(runs.cancel, 999)


def test_a_cancelled_run_is_not_put_to_sleep(store: Store) -> None:
    """Parking finds the flag: ready, not waiting (G12)."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    one.do(runs.cancel, run)
    assert one.commit(proposal(lease, after=State.WAITING))[0].state is State.READY


def test_only_an_intent_is_settled_late(store: Store) -> None:
    """Trouble of the whole run belongs to no call: nothing but a person's decision ends it (G18)."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    wait = NewWait(0, 2, WaitKind.ATTENTION, None, "it kills workers")
    one.commit(proposal(lease, NOTE, Entry(Kind.WAIT, None, b"{}"), waits=[wait], after=State.WAITING))
    assert not one.do(effects.settle_late, run, 1, values.encode({"happened": 1}))
    assert one.run(run).state is State.WAITING


def test_a_second_cancel_says_that_the_run_sleeps(store: Store) -> None:
    """A run that waits inside its compensations is not woken by another cancel, and nobody is told that it is."""
    one = hand(store)
    (run,) = one.start()
    one.do(runs.cancel, run)
    lease = one.claim()[0].lease
    assert one.commit(proposal(lease, after=State.WAITING, seen=1, undoing=True))[0].state is State.WAITING
    assert one.do(runs.cancel, run).state is one.run(run).state is State.WAITING


def test_a_signal_during_the_suspend_is_not_lost(store: Store) -> None:
    """What came since the executor looked makes the run ready at once (G7)."""
    one = hand(store)
    (run,) = one.start()
    claimed = one.claim()[0]
    assert one.do(waits.signal, [NewSignal(run, "go", b"1")]) == [Kept.NEW]
    reply = one.commit(proposal(claimed.lease, after=State.WAITING, seen=claimed.run.inbox))[0]
    assert reply.state is State.READY
    again = one.claim()[0]
    assert [signal.name for signal in again.unread] == ["go"]
    assert one.commit(proposal(again.lease, after=State.WAITING, seen=again.run.inbox))[0].state is State.WAITING


def test_signals_to_ended_and_unknown_runs(store: Store) -> None:
    """Each is told its fate; a batch goes on."""
    one = hand(store)
    ended, open_run = one.start(2)
    for claimed in one.claim():
        after = State.FAILED if claimed.run.id == ended else State.WAITING
        one.commit(proposal(claimed.lease, after=after))
    new = [
        NewSignal(ended, "a", b"1"),
        NewSignal(999, "a", b"1"),
        NewSignal(open_run, "a", b"1", "k"),
        NewSignal(open_run, "a", b"1", "k"),
    ]
    assert one.do(waits.signal, new) == [Kept.FINAL, Kept.NO_RUN, Kept.NEW, Kept.DUPLICATE]
    assert one.run(open_run).state is State.READY


def test_a_decision_first_wins_and_wakes(store: Store, moment: Moment) -> None:
    """Once; of the right kind; before it expires; only while it is open (G10)."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    wait = NewWait(0, 1, WaitKind.APPROVAL, moment.at + 10_000_000, "Send?")
    one.commit(proposal(lease, ASKED, waits=[wait], after=State.WAITING, needs_person=True))
    with pytest.raises(NotFound):
        one.do(waits.answer, run, 7, b"1", kinds=APPROVAL)
    with pytest.raises(UsageError, match="approval"):
        one.do(waits.answer, run, 1, b"1", kinds=frozenset({WaitKind.ATTENTION}))
    one.do(waits.answer, run, 1, b"1", kinds=APPROVAL)
    assert one.run(run).state is State.READY
    with pytest.raises(Conflict):
        one.do(waits.answer, run, 1, b"2", kinds=APPROVAL)
    (row,) = one.claim()[0].waits
    assert (row.answer, row.answered_at) == (b"1", moment.at)


def test_a_withdrawal_that_comes_second_changes_nothing(store: Store, moment: Moment) -> None:
    """The whole proposal is refused, its neighbours in the batch are not (G10)."""
    one = hand(store)
    first, second = one.start(2)
    by_run = {claimed.run.id: claimed.lease for claimed in one.claim()}
    wait = NewWait(0, 1, WaitKind.APPROVAL, None, "Send?")
    one.commit(*(proposal(lease, ASKED, waits=[wait]) for lease in by_run.values()))
    one.do(waits.answer, first, 1, b"1", kinds=APPROVAL)
    moved = {run: lease._replace(head=1) for run, lease in by_run.items()}
    replies = one.commit(*(proposal(lease, closes=[(0, 1)]) for lease in moved.values()))
    assert [(reply.answered, reply.refused) for reply in replies] == [(True, None), (False, None)]
    assert len(one.do(lambda tx: tx.journal(first))) == 1
    assert len(one.do(lambda tx: tx.journal(second))) == 2
    with pytest.raises(Conflict):
        one.do(waits.answer, second, 1, b"1", kinds=APPROVAL)
    assert moment.at


def test_a_timer_is_not_consumed_early(store: Store, moment: Moment) -> None:
    """By the store's clock, whatever the executor believed (G8)."""
    one = hand(store)
    one.start()
    lease = one.claim()[0].lease
    due = moment.at + 1
    assert one.commit(proposal(lease, not_before=due))[0].early
    moment.advance(0.000001)
    assert one.commit(proposal(lease, not_before=due))[0] == (
        moment.at,
        Flag.NONE,
        State.RUNNING,
        None,
        False,
        False,
        0,
    )


def test_messages_leave_with_their_commit_and_arrive_once(store: Store) -> None:
    """In order per sender; a message that was sent again is a duplicate (G7)."""
    one = hand(store)
    sender, target = one.start(2)
    lease = next(c.lease for c in one.claim() if c.run.id == sender)
    messages = [NewMessage(target, "news", f"key {n}", str(n).encode()) for n in range(3)]
    stale = lease._replace(epoch=9)
    assert one.commit(proposal(stale, messages=messages))[0].refused is Fence.LOST
    assert one.do(waits.deliver).done == 0
    one.commit(proposal(lease, messages=messages))
    one.commit(proposal(lease._replace(head=1), messages=messages[:1]))
    assert one.do(waits.deliver, limit=2).done == 2
    assert one.do(waits.deliver).done == 2
    unread = one.do(lambda tx: tx.unread([target]))[target]
    assert [(signal.body, signal.sender) for signal in unread] == [
        (b"0", f"run:{sender}"),
        (b"1", f"run:{sender}"),
        (b"2", f"run:{sender}"),
    ]


@pytest.mark.parametrize("intent", [False, True])
@pytest.mark.parametrize("proof", list(Proof))
def test_who_may_be_reaped(store: Store, moment: Moment, proof: Proof, *, intent: bool) -> None:
    """At once on proof, with an open intent only if the process is gone, else when the time is over."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    if intent:
        one.commit(proposal(lease, INTENT))
    proofs = {one.worker: proof} if proof is not Proof.NONE else {}
    at_once = proof is Proof.PROCESS_GONE or (proof is Proof.LOCK_GONE and not intent)
    assert len(one.do(leases.reap, proofs, quiet_until=0)) == at_once
    assert len(one.do(leases.reap, proofs, quiet_until=moment.at + 1)) == 0
    moment.advance(46)
    assert len(one.do(leases.reap, proofs, quiet_until=0)) == (not at_once)
    row = one.run(run)
    assert (row.state, row.takeovers, row.head) == (State.READY, 1, int(intent))
    assert one.commit(proposal(lease._replace(head=row.head)))[0].refused is Fence.LOST


@pytest.mark.parametrize("intent", [False, True])
def test_a_claim_that_comes_after_its_workers_row_is_gone_is_reaped_at_once(store: Store, *, intent: bool) -> None:
    """The row goes only once its worker is proven gone, so nothing waits for the lease's end (G4).

    Also if an intent is open, from a holder before it, and while it is quiet; the lease of a living worker stays.
    """
    dead, living = hand(store), hand(store)
    dead.start(2)
    if intent:
        for claimed in living.claim():
            living.commit(proposal(claimed.lease, INTENT))
            living.commit(proposal(claimed.lease._replace(head=1), after=State.READY))
    dead.do(lambda tx: tx.drop_workers([dead.worker]))  # by a waker, that found its process gone
    late, other = dead.claim(1)[0].run.id, living.claim()[0].run.id
    (reaped,) = living.do(leases.reap, {}, quiet_until=1 << 62)
    assert (reaped.run_id, reaped.worker, reaped.proof) == (late, dead.worker, Proof.PROCESS_GONE)
    assert (living.run(late).state, living.run(late).takeovers) == (State.READY, 1)
    assert living.run(other).state is State.RUNNING


def test_nobody_reaps_while_it_is_quiet(store: Store, moment: Moment) -> None:
    """After a failover or a gap leases that ran out live on; only a proven death counts."""
    one = hand(store)
    one.start()
    one.claim()
    moment.advance(100)
    quiet = moment.at + 1
    assert one.do(leases.reap, {}, quiet_until=quiet) == []
    assert one.do(leases.reap, {one.worker: Proof.LOCK_GONE}, quiet_until=quiet) == []
    assert len(one.do(leases.reap, {one.worker: Proof.PROCESS_GONE}, quiet_until=quiet)) == 1


def test_stalls_count_only_what_got_nowhere(store: Store, moment: Moment) -> None:
    """A takeover after an entry starts the count again; so does a run that was put away."""
    one = hand(store)
    (run,) = one.start()
    for stalls in (1, 2):
        one.claim()
        moment.advance(46)
        one.do(leases.reap, {}, quiet_until=0)
        assert one.run(run).stalls == stalls
    lease = one.claim()[0].lease
    one.commit(proposal(lease))
    moment.advance(46)
    one.do(leases.reap, {}, quiet_until=0)
    assert (one.run(run).stalls, one.run(run).takeovers) == (0, 3)


def test_a_renewal_makes_no_lease(store: Store, moment: Moment) -> None:
    """It extends what is there, says its head and flags, and passes over what is gone."""
    one = hand(store)
    first, second = one.start(2)
    by_run = {claimed.run.id: claimed.lease for claimed in one.claim()}
    one.commit(proposal(by_run[second], after=State.COMPLETED))
    one.commit(proposal(by_run[first]))
    one.do(runs.cancel, first)
    moment.advance(10)
    asked = [(lease.run_id, lease.token, lease.epoch) for lease in by_run.values()]
    (renewed,) = one.do(leases.renew, one.worker, asked)
    assert (renewed.run_id, renewed.head, renewed.flags) == (first, 1, Flag.CANCEL)
    assert renewed.expires_at == moment.at + 45_000_000
    assert one.do(leases.renew, one.worker, [(first, 99, 1)]) == []


@pytest.mark.parametrize("happened", [False, True])
@pytest.mark.parametrize("after", [State.RUNNING, State.WAITING, State.COMPLETED])
def test_a_lost_answer_is_found_out(store: Store, after: State, *, happened: bool) -> None:
    """From what the store holds: it happened, or it can be sent again (G3)."""
    one = hand(store)
    one.start()
    lease = one.claim()[0].lease
    asked = proposal(lease, INTENT, after=after)
    if happened:
        one.commit(asked)
    verdict, reply = one.do(find_out, asked)
    assert verdict is (LostAnswer.HAPPENED if happened else LostAnswer.SEND_AGAIN)
    if happened:
        assert reply.state is after


def test_an_equal_commit_of_another_epoch_is_not_mine(store: Store, moment: Moment) -> None:
    """The same intent, written by whoever took over: the lease is lost (G1, G3)."""
    one = hand(store)
    one.start()
    lease = one.claim()[0].lease
    asked = proposal(lease, INTENT)
    moment.advance(46)
    one.do(leases.reap, {}, quiet_until=0)
    assert one.do(find_out, asked)[0] is LostAnswer.LEASE_LOST
    one.commit(proposal(one.claim()[0].lease, INTENT))
    assert one.do(find_out, asked)[0] is LostAnswer.LEASE_LOST


@pytest.mark.parametrize("after", [State.RUNNING, State.COMPLETED])
def test_a_run_is_in_a_batch_once(store: Store, moment: Moment, after: State) -> None:
    """What became of a commit is told by its run: a stale one would be told what the new lease's did (G1, G3)."""
    one = hand(store)
    one.start()
    stale = one.claim()[0].lease
    moment.advance(46)
    one.do(leases.reap, {}, quiet_until=0)
    lease = one.claim()[0].lease
    with pytest.raises(AssertionError, match="G3: a run is twice in one batch"):
        one.commit(proposal(stale), proposal(lease, after=after))
    assert [one.commit(proposal(each))[0].refused for each in (stale, lease)] == [Fence.LOST, None]


def test_a_copy_that_went_further_is_not_me(store: Store) -> None:
    """Equal token, epoch and content, but more entries than mine: somebody is me (G2)."""
    one = hand(store)
    one.start()
    lease = one.claim()[0].lease
    asked = proposal(lease, INTENT)
    one.commit(asked)
    one.commit(proposal(lease._replace(head=1), OUTCOME))
    assert one.do(find_out, asked)[0] is LostAnswer.LEASE_LOST


def test_a_batch_keeps_the_good_ones(store: Store) -> None:
    """Stays and leaves, fresh and stale, in one transaction (G1)."""
    one = hand(store)
    started = one.start(4)
    held = {claimed.run.id: claimed.lease for claimed in one.claim()}
    a, b, c, d = (held[run] for run in started)
    replies = one.commit(
        proposal(a),
        proposal(b._replace(head=5)),
        proposal(c, after=State.COMPLETED),
        proposal(d._replace(token=1), after=State.FAILED),
    )
    assert [reply.refused for reply in replies] == [None, Fence.LOST, None, Fence.LOST]
    assert [one.run(run).state for run in started] == [State.RUNNING, State.RUNNING, State.COMPLETED, State.RUNNING]


def test_two_apps_with_one_program_name_are_told_apart(store: Store) -> None:
    """Only while a living worker serves the other one."""
    one = hand(store)
    wanted = [("shop", 1, "other:shop")]
    with pytest.raises(Conflict, match="m:shop is being served, this one is other:shop"):
        one.do(runs.register, wanted, alive=frozenset({one.worker}))
    assert one.do(runs.register, wanted, alive=frozenset()) == one.programs


def test_news_says_what_came(store: Store) -> None:
    """Lease, counter, unread signals and decisions of a run that is held."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    one.commit(proposal(lease, ASKED, waits=[NewWait(0, 1, WaitKind.APPROVAL, None, "Send?")]))
    one.do(waits.signal, [NewSignal(run, "go", values.encode("x"))])
    one.do(waits.answer, run, 1, b"1", kinds=APPROVAL)
    news = one.do(leases.news, [run])[run]
    assert news.lease is not None
    assert (news.lease.head, news.inbox, [s.name for s in news.unread], news.waits[0].answer) == (1, 2, ["go"], b"1")
