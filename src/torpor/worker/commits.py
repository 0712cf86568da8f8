"""An executor's commits: what is gathered, what is under way, what a refusal puts back.

One commit of a run is under way at a time, because the next one's head is known only then. What is gathered meanwhile
travels with the next. A refused draft changed nothing in the store, so it goes back in front of what came after it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from torpor.core.commit import NewWait, Proposal
from torpor.core.journal import Entry, Kind
from torpor.core.lease import Fence
from torpor.core.replay import CallKind, kind_of
from torpor.core.wait import WaitKind
from torpor.worker import ahead
from torpor.worker.draft import TITLE_LETTERS, Draft
from torpor.worker.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.core.commit import NewMessage
    from torpor.engine.commit import Reply
    from torpor.worker.endings import Last
    from torpor.worker.roles import Executor


class Commits:
    """The commits of one executor (committer.Committing)."""

    def __init__(self, executor: Executor) -> None:
        """Begin with nothing gathered."""
        self._executor = executor
        self.draft = Draft()
        self.last: Last | None = None
        """What completes the commit that ends the turn or the stretch, once there is one."""
        self._sent = Draft()
        self._parking = False
        self._seen = 0
        self._unwanted: list[int] = []
        self._under_way: Proposal | None = None
        self._submitted = False
        self._alone: deque[tuple[Callable[[], None], bool]] = deque()
        self._alone_begun = False
        self._held = 0
        self._quiet: list[Callable[[], None]] = []
        self._stream: Stream | None = None

    # gathering

    @property
    def silent(self) -> bool:
        """Whether the run never emitted or showed anything."""
        return self._stream is None

    @property
    def stream(self) -> Stream:
        """What the run emits and shows, made when somebody may want to."""
        if self._stream is None:
            self._stream = Stream(self._executor)
        return self._stream

    def record(self, entry: Entry) -> None:
        """Put an entry into the next commit."""
        self.draft.entries.append(entry)
        if self._stream is not None and entry.kind is not Kind.OUTCOME and entry.key is not None:
            self._stream.failed(entry.key)

    def message(self, message: NewMessage) -> None:
        """Put a message to another run into the next commit."""
        self.draft.messages = (*self.draft.messages, message)

    def open_wait(self, kind: WaitKind, due_at: int | None, title: str, *, matches: int | None = None) -> int:
        """Put a wait into the next commit, opened by the entry recorded last, and keep its slot; return that."""
        taken = {*self._executor.rows, *(wait.slot for wait in (*self.draft.waits, *self._sent.waits))}
        slot = next(n for n in range(len(taken) + 1) if n not in taken)
        opened = NewWait(slot, len(self.draft.entries), kind, due_at, title[:TITLE_LETTERS], matches=matches)
        self.draft.waits = (*self.draft.waits, opened)
        return slot

    def withdraw(self, slot: int) -> None:
        """Take a question back: nobody ever sees one that was not sent, and one that is under way is closed after it."""
        row = self._executor.rows.get(slot)
        place = next((wait.seq for wait in self.draft.waits if wait.slot == slot), None)
        if place is not None:
            self.draft.drop(place)
        elif row is None:
            self._unwanted.append(slot)
        elif row.kind.by_signal:  # what came for it stays among the unread
            self.draft.over = (*self.draft.over, slot)
            self.record(Entry(Kind.NOTE, None, self._executor.bodies.encode({"note": "withdrawn"}, "note")))
        elif row.answered_at is None:
            self.draft.closes = (*self.draft.closes, (slot, row.seq))
            self.record(Entry(Kind.NOTE, None, self._executor.bodies.encode({"note": "withdrawn"}, "note")))

    def withdraw_late(self) -> None:
        """Take back what could not be taken back while its commit was under way."""
        unwanted, self._unwanted = self._unwanted, []
        for slot in unwanted:
            self.withdraw(slot)

    def end_with(self, last: Last, *, parking: bool = False) -> None:
        """Commit what is gathered and end the turn or the stretch with it. `parking`: only because nothing else is left."""
        self.last, self._parking = last, parking
        self._seen = (
            self._executor.seen
        )  # as far as was looked when this was decided: what came since must wake it (G7)
        self.submit()

    # sending

    @property
    def under_way(self) -> Proposal | None:
        """The commit that is under way."""
        return self._under_way

    @property
    def in_flight(self) -> bool:
        """Whether a commit is under way."""
        return self._under_way is not None

    @property
    def pending(self) -> bool:
        """Whether one is under way, or about to be."""
        return self._under_way is not None or self._submitted

    @property
    def owes(self) -> bool:
        """Whether it is known what became of an effect, and that is not even sent."""
        known = (entry.key for entry in self.draft.entries if entry.key and entry.kind is not Kind.INTENT)
        return any(kind_of(key) is CallKind.EFFECT for key in known)

    def submit(self) -> None:
        """Ask the committer for a flush, once."""
        if self._under_way is not None or self._submitted or self._held or self._executor.ended:
            return
        if self._alone and self._send_alone():
            return
        if not self._alone or self.draft.entries or self.last is not None:
            self._submitted = True
            self._executor.worker.committer.submit(self)

    def _send_alone(self) -> bool:
        """Begin the first that waits to be sent by itself, unless it acts and a snapshot is about to be taken."""
        pausing = self._executor.worker.standing.pausing
        place = next((n for n, (_, acts) in enumerate(self._alone) if not (acts and pausing)), None)
        if place is None:
            return False
        send, _ = self._alone[place]
        del self._alone[place]
        self._submitted = self._alone_begun = True
        send()
        return True

    def alone(self, send: Callable[[], None], *, acts: bool = False) -> None:
        """Let `send` build and send the next commit by itself, before any other of this run.

        One that `acts`, an effect in its commit, does not begin while a snapshot is about to be taken (`go_on`).
        """
        self._alone.append((send, acts))
        self.submit()

    def go_on(self) -> None:
        """Begin what had to wait for a snapshot."""
        if self._alone:
            self.submit()

    def hold(self, quiet: Callable[[], None]) -> None:
        """Send nothing more before `release`, and call `quiet` once nothing is under way: the head stands still (G2)."""
        self._held += 1
        if self._under_way is None and not self._alone_begun:
            quiet()
        else:
            self._quiet.append(quiet)

    def release(self) -> None:
        """Send again."""
        self._held -= 1
        if not self._held and (self._alone or self.draft.entries or self.last is not None):
            self.submit()

    def _answered(self) -> None:
        """Take note that nothing is under way any more."""
        quiet, self._quiet = self._quiet, []
        for call in quiet:
            call()

    def build(self, *, alone: bool = False) -> Proposal | None:
        """Return what is to be committed now; `alone` also without an entry: a transactional effect adds one."""
        self._submitted = False
        executor = self._executor
        if executor.ended or (self._held and not alone):
            return None
        turn = executor.turn
        if turn is not None and turn.notes:
            notes, turn.notes = turn.notes, []
            self.draft = Draft(notes).before(self.draft)
        if self.draft.closes:
            self._withdraw_answered()
        self._sent, self.draft = self.draft, Draft()
        sent, lease = self._sent, executor.lease
        proposal = Proposal(lease.run_id, lease.token, lease.epoch, executor.head, sent.entries)
        if not sent.only_entries:
            sent.into(proposal)
        proposal.undoing = executor.undoing
        if alone:
            proposal.transactional = True
        if proposal.looked:
            proposal.seen = executor.seen
        if self.last is not None:
            proposal.seen = self._seen
            self.last(proposal)  # what it adds belongs to this proposal, not to the draft
        if executor.bodies.new:
            proposal.blobs = executor.bodies.take_new()
        if not proposal.entries and not alone:
            return None
        if self._stream is not None:
            self._stream.travel(proposal)
        self._under_way = proposal
        self._alone_begun = False
        return proposal

    def forget_alone(self) -> None:
        """Forget the transactional effects that were about to begin: the run was cancelled."""
        self._alone.clear()
        if self._alone_begun:
            self._alone_begun = self._submitted = False
            self._answered()

    def unrecorded(self) -> list[Entry]:
        """Return the entries that nobody acknowledged, and a few that were just before."""
        return [*self._sent.entries, *self.draft.entries]

    # replies

    def committed(self, proposal: Proposal, reply: Reply) -> None:
        """Take the committer's reply."""
        self._under_way = None
        if self._executor.ended:
            return
        try:
            self._take(proposal, reply)
        except Exception as defect:  # noqa: BLE001 - of torpor's own: the others of the batch must be told all the same
            self._defect(defect)

    def _take(self, proposal: Proposal, reply: Reply) -> None:
        executor = self._executor
        if self._stream is not None:
            self._stream.answered(reply)
        if reply.refused is Fence.LOST:
            executor.lost("the lease was lost")
        elif reply.refused is not None or reply.answered or reply.early:
            self._put_back(proposal, reply)
            executor.refused(reply)
        else:
            if proposal.messages:
                executor.worker.outside.deliver()
            ahead.over(executor.turn)
            executor.committed(proposal, reply)
        if self._quiet:
            self._answered()
        if self._alone:
            self.submit()

    def _put_back(self, proposal: Proposal, reply: Reply) -> None:
        sent, self._sent = self._sent, Draft()
        self._executor.bodies.new[:0] = proposal.blobs
        if reply.refused is not None:  # cancel was asked: results of calls that ended are kept, nothing else goes on
            self.draft, self.last = sent.only_results().before(self.draft), None
            return
        if self._parking:
            self.last, self._parking = None, False
        if reply.answered:
            self._forget_expiry(sent)
        self.draft = sent.before(self.draft)
        self.withdraw_late()

    def _forget_expiry(self, sent: Draft) -> None:
        """Somebody was first: if the draft says that their wait expired, that goes; what they said is consumed instead."""
        executor = self._executor
        wait = executor.progress.waiting.get(executor.consuming or "")
        asked = wait is not None and wait.kind in {WaitKind.APPROVAL, WaitKind.QUESTION}
        if wait is None or not (asked or (wait.kind.by_signal and sent.looked)):
            return
        says = Kind.CONSUMED if asked else Kind.FAILURE
        place = next((n for n, e in enumerate(sent.entries, 1) if e.kind is says and e.key == wait.key), None)
        if place is None:
            return
        sent.drop(place)
        sent.looked = False
        sent.over = [slot for slot in sent.over if slot != wait.slot]
        sent.closes = [(slot, seq) for slot, seq in sent.closes if slot != wait.slot]
        executor.consuming = None

    def _withdraw_answered(self) -> None:
        """A wait that was answered before the code's withdrawal of it became durable is over, and its answer is not used."""
        rows = self._executor.rows
        answered = [slot for slot, _ in self.draft.closes if slot in rows and rows[slot].answered_at is not None]
        if answered:
            self.draft.closes = [(slot, seq) for slot, seq in self.draft.closes if slot not in answered]
            self.draft.over = [*self.draft.over, *answered]

    def take_back(self) -> None:
        """Take the last proposal back: the effect it carried raised, nothing was written."""
        if self._stream is not None:
            self._stream.not_written()
        if self._under_way is not None:
            self._executor.bodies.new[:0] = self._under_way.blobs
        self._under_way = None
        self._submitted = False
        self.draft, self._sent = self._sent.before(self.draft), Draft()
        self.withdraw_late()
        self._answered()

    def broken(self, proposal: Proposal, error: Exception) -> None:
        """Take an error of this commit's own: a defect, or something the store refuses.

        The lease is let go without a word; whoever takes the run over meets the same, and after the third time a person
        is asked (G13).
        """
        self._under_way = None
        executor = self._executor
        executor.worker.log.error(
            "a commit failed", run=executor.name, error=repr(error), entries=len(proposal.entries)
        )
        executor.lost(f"a commit failed: {error!r}")

    def _defect(self, error: Exception) -> None:
        """Let the lease go as `broken` does: what was committed is kept, and nobody here knows how far it was taken in."""
        executor = self._executor
        executor.worker.log.error("a reply was not taken in", run=executor.name, error=repr(error), exc_info=error)
        executor.lost(f"a reply was not taken in: {error!r}")
