"""The executor: drives one lease, from the claim to the moment the run is put away, ended or lost.

It is a small state machine on the worker's loop, moved by plain callbacks: a reply of the committer, a call that ended,
a due timer, news from the store. After each it asks the same question (`_next`): what now? The answers, in order:

    lost               stop; nothing is written any more                              (G1, G2)
    rows being read    nothing may overtake the read
    cancel was asked   let effects that passed their gate end, then end as cancelled  (G12)
    diverged           wait for a person, with both sides
    the body is done   end the turn: a checkpoint and the next one, or the result
    something waits    consume what is satisfied, one wait at a time, earliest first  (G7, G8)
    to be committed    ask the committer; one commit of a run is under way at a time
    calls are running  wait for them
    only waits open    linger a little, then suspend: give the lease up

What each call needs (steps, effects, waits) is in `progress.Progress`; how a turn's body meets its results is in `turn.Turn`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from torpor.core import wait as waits
from torpor.core.commit import NewMessage, NewRow, NewWait, Proposal
from torpor.core.ids import run_name
from torpor.core.journal import RESOLVES, Entry, Kind, Stored
from torpor.core.lease import Fence
from torpor.core.run import POISON_TAKEOVERS, Flag, State
from torpor.core.wait import Trouble, WaitKind
from torpor.errors import Diverged, LeaseLost, TorporError
from torpor.sdk.flow import next_state, rows_of, upcast
from torpor.sdk.rows import seal
from torpor.worker.bodies import Bodies
from torpor.worker.calls import described
from torpor.worker.draft import TITLE_LETTERS, Draft
from torpor.worker.progress import Progress
from torpor.worker.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torpor.engine.commit import Reply
    from torpor.sdk.app import Flow
    from torpor.sdk.port import Request
    from torpor.store.rows import Claimed, WaitRow
    from torpor.worker.worker import Worker

LINGER_SECONDS = 0.05
SLICE_SECONDS = 5.0


class Executor:
    """One stretch of one run."""

    def __init__(self, worker: Worker, claimed: Claimed, flow: Flow, version: int, blobs: Mapping[bytes, bytes]) -> None:
        """Take what the claim brought; nothing runs before `start`."""
        self.worker = worker
        self.flow = flow
        self.run = claimed.run
        self.lease = claimed.lease
        self.name = run_name(flow.name, claimed.run.id)
        self.bodies = Bodies(worker.secrets, blobs)
        self.head = claimed.lease.head
        self.version = version
        self.unread = list(claimed.unread)
        self.seen = claimed.run.inbox
        self.rows: dict[int, WaitRow] = {row.slot: row for row in claimed.waits}
        self.turn: Turn | None = None
        self.progress = Progress(self)
        self.cancelling = Flag.CANCEL in claimed.lease.flags
        self.ended = False
        self.draining = False
        self._claimed = claimed
        self._born = worker.loop.time()
        self.draft = Draft()
        self._sent = Draft()
        self._arrived: deque[Stored] = deque()
        self._parking = False
        self._consuming: str | None = None
        self._last: Callable[[Proposal], None] | None = None
        self._in_flight: Proposal | None = None
        self._submitted = False
        self._timer: asyncio.TimerHandle | None = None

    # beginning

    def start(self) -> None:
        """Begin: a plain callback of the worker's loop."""
        state = self._claimed.state
        if self.cancelling:
            self._end_cancelled()
            return
        if self.run.stalls >= POISON_TAKEOVERS and not self._settled_trouble():
            self.trouble(Trouble.POISON, f"{self.run.stalls} workers in a row died or went silent here", {})
            return
        self._begin_turn(state.turn, state.at, state.body, self._claimed.entries)

    def _begin_turn(self, number: int, at: int, body: bytes, entries: list[Stored]) -> None:
        try:
            state = self.bodies.decode(body, self.flow.state_type if self.head == 0 else None)
            if self.version != self.flow.version:
                state = upcast(self.flow, state, self.version)
            self.turn = Turn(self, self.flow, number, at, state, entries)
        except Exception as error:  # noqa: BLE001 - the author's upcast, or a state their code cannot read
            self.trouble(Trouble.DIVERGED, f"the state of turn {number} cannot be read: {error}", described(error))
            return
        self.go_on()

    def go_on(self) -> None:
        """Let the body run until it is idle, then see what is next."""
        if self.turn is None or self.ended:
            return
        turn = self.turn
        try:
            turn.advance()
            while self._arrived and not turn.reading and not self.ended:
                turn.hand_over(self._arrived.popleft())
                turn.advance()
        except TorporError as error:  # an endless loop in the body, for one
            self._fail(error)
            return
        self.progress.start_pending()
        self._next()

    def call_ended(self) -> None:
        """See what is next after a call ended; the body has nothing new before its outcome is durable."""
        if self.turn is not None:
            self._next()

    # what now?

    def _next(self) -> None:
        turn = self.turn
        if self.ended or turn is None or turn.reading or self._last is not None:
            return
        if turn.diverged is not None:
            self._diverged(turn.diverged)
        elif self.cancelling:
            self._cancel()
        elif turn.main.done():
            self._end_turn(turn)
        else:
            self._consume()
            if self.draft.entries:
                self.submit()
            elif not self.progress.busy and self._in_flight is None:
                self._suspend(turn)

    def submit(self) -> None:
        """Ask the committer for a flush, once."""
        if not self._submitted and self._in_flight is None and not self.ended:
            self._submitted = True
            self.worker.committer.submit(self)

    def record(self, entry: Entry) -> None:
        """Put an entry into the next commit."""
        self.draft.entries.append(entry)

    def message(self, message: NewMessage) -> None:
        """Put a message to another run into the next commit."""
        self.draft.messages = (*self.draft.messages, message)

    def open_wait(self, kind: WaitKind, due_at: int | None, title: str) -> int:
        """Put a person's wait into the next commit, opened by the entry recorded last; return its slot."""
        taken = {*self.rows, *(wait.slot for wait in (*self.draft.waits, *self._sent.waits))}
        slot = next(n for n in range(len(taken) + 1) if n not in taken)
        opened = NewWait(slot, len(self.draft.entries), kind, due_at, title[:TITLE_LETTERS])
        self.draft.waits = (*self.draft.waits, opened)
        return slot

    # waits

    def _consume(self) -> None:
        """Choose the next satisfied wait, if none is being consumed, and journal what satisfied it."""
        if self._consuming is not None or self.turn is None or not self.progress.waits:
            return
        delivery = waits.next_delivery(self.progress.open_waits(), self.unread, now=self.now())
        if delivery is None:
            return
        wait = delivery.wait
        if wait.kind is WaitKind.RETRY:
            self.progress.retry(wait.key)
            return
        self._consuming = wait.key
        if delivery.signal is not None:
            self.unread.remove(delivery.signal)
            self.draft.taken = (*self.draft.taken, delivery.signal.seq)
            self.record(Entry(Kind.CONSUMED, wait.key, delivery.signal.body))
        elif wait.kind is WaitKind.TIMER:
            self.draft.not_before = max(self.draft.not_before, delivery.at)
            self.record(Entry(Kind.CONSUMED, wait.key, None))
        else:
            self.progress.decided(wait, delivery)

    # commits

    @property
    def in_flight(self) -> bool:
        """Whether a commit of this run is under way."""
        return self._in_flight is not None or self._submitted

    def build(self, *, alone: bool = False) -> Proposal | None:
        """Return what is to be committed now (committer.Committing); `alone` also without an entry: one will be added."""
        self._submitted = False
        if self.ended:
            return None
        turn = self.turn
        if turn is not None and turn.notes:
            notes, turn.notes = turn.notes, []
            self.draft = Draft(notes).before(self.draft)
        self._sent, self.draft = self.draft, Draft()
        sent = self._sent
        proposal = Proposal(
            self.run.id,
            self.lease.token,
            self.lease.epoch,
            self.head,
            sent.entries,
            seen=self.seen,
            waits=sent.waits,
            closes=sent.closes,
            over=sent.over,
            taken=sent.taken,
            messages=sent.messages,
            not_before=sent.not_before,
            transactional=alone,
        )
        if self._last is not None:
            self._last(proposal)  # what it adds belongs to this proposal, not to the draft
        if self.bodies.new:
            proposal.blobs = self.bodies.take_new()
        if not proposal.entries and not alone:
            return None
        self._in_flight = proposal
        return proposal

    def committed(self, proposal: Proposal, reply: Reply) -> None:
        """Take the committer's reply."""
        self._in_flight = None
        if self.ended:
            return
        if reply.refused is Fence.LOST:
            self.lost("the lease was lost")
            return
        self.cancelling = self.cancelling or reply.refused is Fence.CANCELLED or Flag.CANCEL in reply.flags
        if reply.refused is not None or reply.answered or reply.early:
            self._refused(reply)
            return
        first = self.head
        self.head += len(proposal.entries)
        self.worker.saw_time(reply.at)
        if proposal.waits or proposal.over or proposal.closes:
            self._store_waits(proposal, first)
        if proposal.after is not State.RUNNING:
            self._left(proposal, reply)
        elif proposal.state_body is not None:
            self._next_turn(proposal, reply)
        else:
            self._hand_over(proposal, first, reply.at)

    def _store_waits(self, proposal: Proposal, first: int) -> None:
        from torpor.store.rows import WaitRow as Row  # noqa: PLC0415 - a type elsewhere, made here only

        for slot in (*proposal.over, *(slot for slot, _ in proposal.closes)):
            self.rows.pop(slot, None)
        for w in proposal.waits:
            seq = first + w.seq if w.fresh else w.seq
            self.rows[w.slot] = Row(self.run.id, w.slot, seq, w.kind, w.due_at, None, w.title, None)

    def _hand_over(self, proposal: Proposal, first: int, at: int) -> None:
        """Give the body each new result in journal order, letting it run until idle in between."""
        for seq, entry in enumerate(proposal.entries, start=first + 1):
            if entry.key is not None and entry.key == self._consuming:
                self._consuming = None
            if entry.kind in RESOLVES:
                self.progress.recorded(entry.key or "")
                self._arrived.append(Stored(seq, at, self.lease.epoch, entry.kind, entry.key, entry.body))
            else:
                self.progress.durable(entry, seq)
        self.go_on()

    def _refused(self, reply: Reply) -> None:
        """Nothing was written: cancel was asked, a person was first, or a timer is not due by the store's clock."""
        sent, self._sent = self._sent, Draft()
        if reply.refused is not None:
            self.draft = sent.only_results().before(self.draft)
            self._last = None
            self._next()
            return
        if self._parking:
            self._last, self._parking = None, False
        if reply.early:
            self.draft = sent.before(self.draft)
            self.worker.loop.call_later(LINGER_SECONDS, self._resubmit)
            return
        sent.entries = [e for e in sent.entries if not (e.kind is Kind.CONSUMED and e.key == self._consuming)]
        sent.closes, self._consuming = (), None
        self.draft = sent.before(self.draft)
        self.worker.look_at(self)

    def _resubmit(self) -> None:
        if self._last is not None or self.draft.entries:
            self.submit()
        else:
            self._next()

    def take_back(self) -> None:
        """Take the last proposal back: the effect it carried raised, nothing was written."""
        self._in_flight = None
        self.draft, self._sent = self._sent.before(self.draft), Draft()

    def broken(self, proposal: Proposal, error: Exception) -> None:
        """A commit that cannot be made: a defect, or a value the store refuses. The run says so and waits for a person."""
        self._in_flight = None
        self.worker.log.error("a commit failed", run=self.name, error=repr(error), entries=len(proposal.entries))
        self.lost(f"a commit failed: {error!r}")

    # ends of a turn

    def _end_turn(self, turn: Turn) -> None:
        """End the turn once its open effects have outcomes; open steps are cancelled."""
        self.progress.cancel_steps()
        if self.progress.effects_open or self._in_flight is not None:
            if self.draft.entries:
                self.submit()
            return
        for complaint in turn.loop.cancel_leftovers():
            self.worker.log.warning("flow", run=self.name, said=complaint)
        if turn.main.cancelled():
            self._fail(TorporError("the flow was cancelled from inside: an asyncio.CancelledError left its body"))
            return
        error = turn.main.exception()
        if error is not None:
            self._fail(error)
            return
        again, value = next_state(turn.main.result())
        try:
            if again:
                self._checkpoint(turn, value)
            else:
                body = self.bodies.encode(value, "the result")
                self._finish(State.COMPLETED, Entry(Kind.OUTCOME, None, body))
        except TorporError as unstorable:
            self._fail(unstorable)

    def _checkpoint(self, turn: Turn, state: Any) -> None:  # noqa: ANN401 - any state
        rows: list[NewRow] = []
        for field, appended in rows_of(state):
            first, new = seal(appended)
            rows += [NewRow(field, first + n, self.bodies.encode(item, f"state.{field}[{first + n}]")) for n, item in enumerate(new)]
        body = self.bodies.encode(state, "state")
        entry = Entry(Kind.CHECKPOINT, None, None)

        def last(proposal: Proposal) -> None:
            proposal.entries = [*proposal.entries, entry]
            proposal.state_body, proposal.turn, proposal.rows = body, turn.turn + 1, rows
            proposal.over = self._stale_slots(proposal)
            if self.version != self.flow.version:
                proposal.program = self.worker.program_number(self.flow)

        self._last = last
        self.submit()

    def _stale_slots(self, proposal: Proposal) -> list[int]:
        """A turn's waits end with it, those of people withdrawn with care."""
        proposal.closes = [
            *proposal.closes, *((r.slot, r.seq) for r in self.rows.values() if r.kind.for_person and r.answered_at is None)
        ]
        return [*proposal.over, *(row.slot for row in self.rows.values())]

    def _next_turn(self, proposal: Proposal, reply: Reply) -> None:
        self._last = None
        self.version = self.flow.version
        self.progress = Progress(self)
        self._consuming = None
        old, self.turn = self.turn, None
        if old is not None:
            old.close()
        if self.cancelling:
            self._end_cancelled()
        elif self.draining or self._slice_over():
            self._give_back("drained" if self.draining else "yielded: others wait")
        else:
            self._begin_turn(proposal.turn, reply.at, proposal.state_body or b"", [])

    def _slice_over(self) -> bool:
        return self.worker.others_wait and self.worker.loop.time() - self._born > SLICE_SECONDS

    def _fail(self, error: BaseException) -> None:
        recorded = self.bodies.encode(described(error) | {"where": self.worker.place_of(error)}, "the error")
        self._finish(State.FAILED, Entry(Kind.FAILURE, None, recorded))

    def _finish(self, state: State, entry: Entry) -> None:
        def last(proposal: Proposal) -> None:
            proposal.entries = [*proposal.entries, entry]
            proposal.after = state
            proposal.over = self._stale_slots(proposal)

        self._last = last
        self.submit()

    # putting away

    def _suspend(self, turn: Turn) -> None:
        """Only waits are open: linger for one that is due at once, else give the lease up."""
        open_waits = self.progress.open_waits()
        if not open_waits:
            self._fail(turn.loop.stuck())
            return
        due = waits.due_at(open_waits)
        now = self.now()
        if due is not None and due - now <= LINGER_SECONDS * 1_000_000 and not self.draining:
            delay = max(0.0005, (due - now) / 1_000_000)
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.worker.loop.call_later(delay, self._next)
            return
        titles = [self.progress.title_of(wait) for wait in open_waits]

        def last(proposal: Proposal) -> None:
            body = self.bodies.encode({"for": titles}, "waits")
            proposal.entries = [*proposal.entries, Entry(Kind.WAIT, None, body)]
            proposal.after, proposal.due_at = State.WAITING, due
            self._park_rows(proposal, open_waits, titles)

        self._last, self._parking = last, True
        self.submit()

    def _park_rows(self, proposal: Proposal, open_waits: list[waits.Open], titles: list[str]) -> None:
        """Write the waits that no entry of their own made known; slots of those that are over are used again."""
        kept = {row.slot for row in self.rows.values() if row.kind.for_person} | {w.slot for w in proposal.waits}
        kept -= set(proposal.over)
        fresh = [(wait, title) for wait, title in zip(open_waits, titles, strict=True) if not wait.kind.for_person]
        slots = iter(slot for slot in range(len(kept) + len(fresh)) if slot not in kept)
        place = len(proposal.entries)
        used = set()
        for wait, title in fresh:
            slot = next(slots)
            used.add(slot)
            proposal.waits = (*proposal.waits, NewWait(slot, place, wait.kind, wait.due_at, title[:TITLE_LETTERS]))
        proposal.over = [*proposal.over, *(slot for slot in self.rows if slot not in kept and slot not in used)]
        proposal.needs_person = any(wait.kind.for_person for wait in open_waits)

    def _left(self, proposal: Proposal, reply: Reply) -> None:
        """The lease is gone with the commit that gave it up."""
        self._stop()
        self.worker.left(self, reply.state, proposal)

    def _give_back(self, why: str) -> None:
        def last(proposal: Proposal) -> None:
            proposal.entries = [*proposal.entries, Entry(Kind.NOTE, None, self.bodies.encode({"note": why}, "note"))]
            proposal.after = State.READY

        self._last = last
        self.submit()

    def drain(self) -> None:
        """Let effects in flight end, cancel steps, and give the lease back so that others go on at once."""
        self.draining = True
        self.progress.cancel_steps()
        if not self.ended and self._last is None and not self.progress.effects_open and self._in_flight is None:
            if self.turn is not None and self.turn.main.done():
                self._next()
            else:
                self.draft = self.draft.only_results()
                self._give_back("drained")

    # trouble

    def trouble(self, kind: Trouble, title: str, more: dict[str, Any]) -> None:
        """Put the run away for a person, saying what is wrong (G13)."""
        same = next((r for r in self.rows.values() if r.kind is WaitKind.ATTENTION and r.title == title[:TITLE_LETTERS]), None)

        def last(proposal: Proposal) -> None:
            body = self.bodies.encode({"trouble": kind.name.lower(), "title": title, **more}, "trouble")
            proposal.entries = [Entry(Kind.WAIT, None, body)]
            proposal.after = State.WAITING
            stale = [row.slot for row in self.rows.values() if row.kind is WaitKind.ATTENTION and row is not same]
            proposal.over, proposal.needs_person = stale, True
            if same is None:
                used = set(self.rows) - set(stale)
                slot = next(n for n in range(len(used) + 1) if n not in used)
                proposal.waits = [NewWait(slot, 1, WaitKind.ATTENTION, None, title[:TITLE_LETTERS])]

        self._last = last
        self.submit()

    def _diverged(self, diverged: Diverged) -> None:
        settled = self._settled_trouble()
        if settled is not None and settled.get("fail") is not None:
            self._fail(diverged)
            return
        self.progress.cancel_steps()
        self.trouble(
            Trouble.DIVERGED, diverged.message, {"recorded": diverged.recorded, "asked": diverged.asked, "hint": diverged.hint}
        )

    def _settled_trouble(self) -> dict[str, Any] | None:
        """Return what a person answered to a trouble of the whole run, if one did."""
        for row in self.rows.values():
            if row.kind is WaitKind.ATTENTION and row.answered_at is not None and row.seq not in self._call_waits():
                answer: dict[str, Any] = self.bodies.decode(row.answer)
                return answer
        return None

    def _call_waits(self) -> set[int]:
        return {entry.seq for entry in self._claimed.entries if entry.kind is Kind.WAIT and entry.key is not None}

    # cancel, loss

    def _cancel(self) -> None:
        self.progress.cancel_steps()
        if self.progress.effects_past_gate or self._in_flight is not None:
            return
        self.draft = self.draft.only_results()
        self._end_cancelled()

    def _end_cancelled(self) -> None:
        self._finish(State.CANCELLED, Entry(Kind.NOTE, None, self.bodies.encode({"note": "cancelled"}, "note")))

    def lost(self, why: str) -> None:
        """Stop: this executor no longer owns the run. Nothing is written; nothing is started any more (G1, G2)."""
        if not self.ended:
            self.worker.log.warning("lease lost", run=self.name, why=why, epoch=self.lease.epoch, head=self.head)
            self._stop()
            self.worker.dropped(self, LeaseLost(f"{self.name}: {why}"))

    def _stop(self) -> None:
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()
        self.progress.stop()
        turn, self.turn = self.turn, None
        if turn is not None:
            for complaint in turn.close():
                self.worker.log.warning("flow", run=self.name, said=complaint)

    # services

    def withdrawn(self, request: Request) -> None:
        """Take back a call the code no longer waits for."""
        self.progress.withdrawn(request)

    def begin(self, request: Request, record: Any) -> None:  # noqa: ANN401 - core.replay.Record or None
        """Begin a call that the journal cannot answer."""
        self.progress.begin(request, record)

    def now(self) -> int:
        """Return the store's time as the worker knows it."""
        return self.worker.now()

    def secret(self, name: str) -> str:
        """Resolve a secret."""
        return self.worker.secrets.resolve(name)

    def log_line(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Write a line of the author's log."""
        getattr(self.worker.log, level)(event, run=self.name, **fields)

    def read_rows(self, field: str, first: int, most: int, here: Callable[[list[bytes] | Exception], None]) -> None:
        """Read rows of the run's state."""
        self.worker.read_rows(self, field, first, most, here)

    def news(self, flags: Flag, inbox: int, unread: list[waits.Signal], rows: list[WaitRow], head: int) -> None:
        """Take what the store has for this run now: signals, decisions, cancel; a foreign head means a copy (G2)."""
        if self.ended:
            return
        if self._in_flight is None and not self._submitted and head != self.head:
            self.lost("another copy of this worker wrote to the run")
            return
        self.cancelling = self.cancelling or Flag.CANCEL in flags
        if inbox > self.seen:
            self.unread += [signal for signal in unread if signal.seq > self.seen]
            self.seen = inbox
        for row in rows:
            if row.slot in self.rows and self.rows[row.slot].seq == row.seq:
                self.rows[row.slot] = row
        self._resubmit()
