"""Fork, rewind, retry and prune by hand: all or nothing wherever they are killed, and fenced holders (G5, G9, G18, G19)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.turns import str_id, turns
from tests.engine.world import INTENT, OUTCOME, Hand, hand, proposal
from torpor.core.commit import NewWait
from torpor.core.journal import Entry, Kind
from torpor.core.lease import Fence
from torpor.core.run import State
from torpor.core.wait import WaitKind
from torpor.engine import branching, effects, retention, waits
from torpor.errors import Conflict, NotFound
from torpor.store import values
from torpor.store.history_rows import RetentionRow
from torpor.store.rows import NewSignal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment
    from torpor.store.protocol import Store, Tx

DAY = 86_400_000_000


class Killed(BaseException):
    """The process died here: what was not committed is gone."""


class Counted:
    """A transaction that dies before its n-th verb."""

    def __init__(self, tx: Tx, left: int) -> None:
        """Live for so many verbs."""
        self._tx = tx
        self._left = left

    def __getattr__(self, name: str) -> Any:
        """Be the transaction, until it dies."""
        if self._left == 0:
            raise Killed
        self._left -= 1
        return getattr(self._tx, name)


def everything(tx: Tx, run: int) -> list[Any]:
    """Return all that the store has of a run."""
    rows = tx.get_rows(run, "said", after=0, limit=1000)
    return [tx.get_runs([run]), tx.states([run]), tx.journal(run), tx.waits([run], over=True), tx.leases([run]), rows]


def killed_everywhere(one: Hand, run: int, op: Callable[[Any], Any]) -> Any:
    """Kill an operation before each of its verbs: nothing may have changed; then let it happen and return its result."""
    before = one.do(everything, run)
    for left in range(200):
        try:
            return one.do(lambda tx, left=left: op(Counted(tx, left)))
        except Killed:
            assert one.do(everything, run) == before
            assert one.do(lambda tx: tx.forks_of(run, limit=5)) == []
    raise AssertionError("it never ends")


def said(one: Hand, run: int) -> list[Any]:
    """Return the rows of a run."""
    return [values.plain(body) for body in one.do(lambda tx: tx.get_rows(run, "said", after=0, limit=1000))]


def test_a_rewind_fences_the_holder(store: Store) -> None:
    """Its commit and its gate find nothing; late results answer nothing; heads and turns go up (G1, G18)."""
    one = hand(store)
    (run,) = one.start()
    lease = turns(one, run, 2)
    one.commit(proposal(lease, INTENT))
    lease = lease._replace(head=lease.head + 1)
    done = killed_everywhere(one, run, lambda tx: branching.rewind(tx, str_id(run), 3, by="ana"))
    assert (done.turn, done.branch) == (4, 1)
    assert [line.outcome for line in done.outlook.cannot_undo] == ["done", "in flight"]
    row = one.run(run)
    assert (row.state, row.head, row.branch, row.epoch) == (State.READY, lease.head + 2, 1, 2)
    assert one.commit(proposal(lease, OUTCOME))[0].refused is Fence.LOST
    assert one.do(effects.look, [run]) == {}
    assert said(one, run) == [[2, 0]]
    fresh = turns(one, run, 0)
    asked = NewWait(0, 2, WaitKind.ATTENTION, None, "did pay#1 happen?")
    unknown = [INTENT, Entry(Kind.WAIT, "e:pay#1", b"{}")]
    one.commit(proposal(fresh, *unknown, waits=[asked], after=State.WAITING))
    assert not one.do(effects.settle_late, run, lease.head, values.encode({"happened": 1}))
    assert one.do(effects.settle_late, run, fresh.head + 1, values.encode({"happened": 1}))


def test_a_fork_copies_what_was_there(store: Store) -> None:
    """State and rows up to their length; no wait, signal, key; the holder of the source goes on (G19)."""
    one = hand(store)
    (run,) = one.start()
    lease = turns(one, run, 3, rows=2)
    ask = NewWait(0, 1, WaitKind.APPROVAL, None, "Send?")
    one.commit(proposal(lease, Entry(Kind.WAIT, "a:x#1", b"{}"), waits=[ask]))
    one.do(waits.signal, [NewSignal(run, "go", b"1", "k")])
    wanted = branching.Fork(str_id(run), 6, "ana", "try it")
    before = one.do(everything, run)
    made = killed_everywhere(one, run, lambda tx: branching.fork(tx, wanted))
    assert one.do(everything, run) == before
    copy = one.do(lambda tx: tx.forks_of(run, limit=5))[0]
    row, state = one.run(copy), one.do(lambda tx: tx.states([copy]))[copy]
    assert (row.state, row.head, row.branch, row.inbox, row.epoch) == (State.READY, 1, 1, 0, 0)
    assert (state.seq, state.turn) == (1, 3)
    assert said(one, copy) == [[2, 0], [2, 1], [3, 0], [3, 1]]
    assert one.do(lambda tx: tx.waits([copy], over=True)) == []
    assert one.do(lambda tx: tx.unread([copy])) == {}
    assert [line.turn for line in made.outlook.cannot_undo] == [3]
    assert one.commit(proposal(lease._replace(head=lease.head + 1)))[0].refused is None
    fork = one.do(lambda tx: tx.forks([copy]))[copy]
    assert (fork.source, fork.seq, fork.made_by, fork.title) == (run, 6, "ana", "try it")


def test_a_retry_is_all_or_nothing(store: Store) -> None:
    """Killed anywhere it left a failed run; once it happened the run is ready and cannot be retried again."""
    one = hand(store)
    (run,) = one.start()
    lease = turns(one, run, 1)
    failed = Entry(Kind.FAILURE, "s:scan#1", values.encode({"kind": "OSError", "detail": "gone"}))
    end = Entry(Kind.FAILURE, None, values.encode({"kind": "StepFailed", "detail": "gone", "calls": ["s:scan#1"]}))
    one.commit(proposal(lease, failed, end, after=State.FAILED))
    done = killed_everywhere(one, run, lambda tx: branching.retry(tx, str_id(run), by="ana"))
    assert (done.checkpoint, done.again, done.reused) == (3, ["scan#1"], [])
    row = one.run(run)
    assert (row.state, row.head) == (State.READY, 7)
    kinds = [(entry.kind, entry.key) for entry in one.do(lambda tx: tx.journal(run, after=5))]
    assert kinds == [(Kind.RETRY, "s:scan#1"), (Kind.RETRY, None)]
    with pytest.raises(Conflict):
        one.do(branching.retry, str_id(run), by="ben")


def test_a_prune_goes_on_after_a_kill(store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bounded parts; killed before each verb of each part, what is left goes the next time, and nothing is left."""
    monkeypatch.setattr(retention, "ROWS", 4)
    one = hand(store)
    ended = []
    for _ in range(2):
        (run,) = one.start()
        ended.append(run)
        lease = turns(one, run, 3)
        one.commit(proposal(lease, after=State.COMPLETED))
    moment.advance(86_400)
    (young,) = one.start()
    lease = turns(one, young, 1)
    one.commit(proposal(lease, after=State.COMPLETED))
    one.do(retention.declare, [RetentionRow("shop", runs=DAY // 2)])
    more, parts = True, 0
    while more:
        for left in range(200):
            try:
                more = one.do(lambda tx, left=left: retention.sweep(Counted(tx, left))).more
                break
            except Killed:
                with pytest.raises((Conflict, NotFound)):
                    one.do(branching.retry, str_id(ended[0]), by="ana")
        parts += 1
    assert parts > 3
    assert sorted(one.do(lambda tx: tx.get_runs([*ended, young]))) == [young]
    assert one.do(lambda tx: tx.measure(ended)) == (0, 0)
    assert one.do(lambda tx: tx.measure([young]))[0] > 0


def test_a_retried_run_is_not_pruned(store: Store, moment: Moment) -> None:
    """What a sweep selected is asked again under the lock: a failed run that was retried meanwhile stays."""
    one = hand(store)
    (run,) = one.start()
    lease = turns(one, run, 1)
    one.commit(proposal(lease, after=State.FAILED))
    moment.advance(10)

    class Late(Counted):
        """Selects, and somebody retries before it locks."""

        def ended_runs(self, *given: Any, **more: Any) -> Any:
            found = self._tx.ended_runs(*given, **more)
            branching.retry(self._tx, str_id(run), by="ana")
            return found

    part = one.do(lambda tx: retention.prune_ended(Late(tx, 99), one.programs[0], moment.at, "ana"))
    assert part.runs == 0
    assert one.run(run).state is State.READY


def test_a_journal_is_cut_below_its_checkpoint(store: Store, moment: Moment) -> None:
    """By age; the checkpoint and what is after it stay, resume is the same, and a rewind past it says so (G9)."""
    one = hand(store)
    (run,) = one.start()
    lease = turns(one, run, 3)
    moment.advance(86_400)
    one.commit(proposal(lease, after=State.READY))
    lease = turns(one, run, 2)
    one.commit(proposal(lease, after=State.READY))
    before = one.claim()[0]
    one.do(retention.declare, [RetentionRow("shop", journal=DAY // 2)])
    one.do(retention.sweep)
    assert [entry.seq for entry in one.do(lambda tx: tx.journal(run))] == list(range(10, 18))
    assert one.do(lambda tx: tx.entries([(run, 0)])) == {}
    with pytest.raises(Conflict, match=r"Entries 1-9 were pruned on 2 Jan by the retention of `shop`") as gone:
        one.do(branching.rewind, str_id(run), 3, by="ana")
    assert "The checkpoint at 13 is whole." in gone.value.message
    assert "--at 13" in gone.value.hint
    one.commit(proposal(before.lease, after=State.READY))
    after = one.claim()[0]
    assert (after.state, after.entries[:-1]) == (before.state, before.entries)


@pytest.mark.parametrize("length", [10, 1_000])
def test_resume_reads_the_same_whatever_was_before(store: Store, length: int) -> None:
    """A claim brings the checkpoint and what came after it, after ten entries or ten thousand (G9)."""
    one = hand(store)
    (run,) = one.start()
    lease = turns(one, run, 1)
    for _ in range(length // 100 + 1):
        one.commit(proposal(lease, *[OUTCOME] * min(length, 100)))
        lease = lease._replace(head=lease.head + min(length, 100))
    one.commit(proposal(lease, after=State.READY))
    lease = turns(one, run, 1)
    one.commit(proposal(lease, OUTCOME, after=State.READY))
    claimed = one.claim()[0]
    assert (len(claimed.entries), claimed.state.turn, claimed.waits) == (1, 3, [])


def test_old_checkpoints_are_emptied_by_age(store: Store, moment: Moment) -> None:
    """The present one never is; the journal stays."""
    one = hand(store)
    (run,) = one.start()
    lease = turns(one, run, 3)
    moment.advance(86_400)
    one.do(retention.declare, [RetentionRow("shop", checkpoints=DAY // 2)])
    one.do(retention.sweep)
    assert [entry.seq for entry in one.do(lambda tx: tx.whole_checkpoints(run, limit=9))] == [9]
    assert len(one.do(lambda tx: tx.journal(run))) == lease.head
