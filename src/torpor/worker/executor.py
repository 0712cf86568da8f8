"""The executor: drives one lease, from the claim to the moment the run is put away, ended or lost.

It is a small state machine on the worker's loop, moved by plain callbacks: a reply of the committer, a call that ended,
a due timer, news from the store. After each it asks the same question (`see_next`): what now? The answers, in order:

    lost               stop; nothing is written any more                              (G1, G2)
    rows being read    nothing may overtake the read
    cancel was asked   let effects that passed their gate end, undo what is registered, then end as cancelled  (G12)
    diverged           wait for a person, with both sides
    the body is done   end the turn: a checkpoint and the next one, or the result
    interrupted        end the open calls, each with a failure of its own
    something waits    consume what is satisfied, one wait at a time, earliest first  (G7, G8)
    to be committed    ask the committer; one commit of a run is under way at a time
    calls are running  wait for them
    only waits open    linger a little, then suspend: give the lease up

What each call needs (steps, effects, waits) is in `progress.Progress`; how a turn's body meets its results is in `turn.Turn`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from torpor.core import wait as waits
from torpor.core.ids import run_name
from torpor.core.journal import RESOLVES, Entry, Kind, Stored
from torpor.core.run import POISON_TAKEOVERS, Flag, State
from torpor.core.wait import Trouble
from torpor.errors import Diverged, LeaseLost, StoreError, StoreUnavailable, TorporError
from torpor.sdk.flow import next_state, upcast
from torpor.sdk.undoing import UNDO, belongs
from torpor.worker import ahead, beginning, consuming, endings, guests, interrupting, undoing
from torpor.worker.bodies import Bodies
from torpor.worker.calls import described
from torpor.worker.commits import Commits
from torpor.worker.linger import LINGER_SECONDS, Linger
from torpor.worker.progress import Progress
from torpor.worker.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torpor.core.commit import Proposal
    from torpor.engine.cancels import ToUndo
    from torpor.engine.commit import Reply
    from torpor.sdk.app import Flow
    from torpor.sdk.port import Kept
    from torpor.store.rows import Claimed, WaitRow
    from torpor.worker.roles import Worker
    from torpor.worker.tracing import Stretch

SLICE_SECONDS = 5.0
POISONED = "three workers in a row died or went silent while they had this run"


class Executor:
    """One stretch of one run."""

    def __init__(
        self, worker: Worker, claimed: Claimed, flow: Flow, version: int, blobs: Mapping[bytes, bytes]
    ) -> None:
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
        self.interrupts = bool(self.unread) and interrupting.asked(self.unread)
        self.seen = claimed.run.inbox
        self.kept: dict[str, Kept] = {}
        self.rows: dict[int, WaitRow] = {row.slot: row for row in claimed.waits}
        self.turn: Turn | None = None
        self.spends = beginning.spends(claimed)
        self.progress = Progress(self)
        self.cancelling = bool(claimed.lease.flags & (Flag.CANCEL | Flag.UNDOING))
        self.undoing = False
        self.ended = False
        self.draining = False
        self.trace: Stretch | None = None
        self._claimed = claimed
        self.born = worker.loop.time()
        self.commits = Commits(self)
        self._plan = undoing.Plan()
        self.arrived: deque[tuple[Entry, int]] = deque()
        self._asked: WaitRow | None = None
        self.consuming: str | None = None
        self.behind: Proposal | None = None
        self._linger = Linger(worker, self.see_next)

    # beginning

    def start(self) -> None:
        """Begin: a plain callback of the worker's loop."""
        if self.ended:
            return  # lost since it was claimed: a body that is made now would never run
        state = self._claimed.state
        self._asked, settled = beginning.question(self, self._claimed)
        stalled = self.run.stalls >= POISON_TAKEOVERS  # since it was put away last: an answer given before says nothing
        asked = self._asked is not None and self._asked.title == POISONED
        if self.cancelling:
            self._undo(state.turn, over=settled is not None and settled.get("fail") is not None, stalled=stalled)
        elif settled is not None and settled.get("fail") is not None:
            self._fail(TorporError(f"a person ended it: {settled['fail']}"))
        elif stalled or asked:
            self._trouble(Trouble.POISON, POISONED, {"takeovers": self.run.takeovers})
        elif (error := beginning.unreadable(self.bodies, self._claimed)) is not None:
            self.unreadable(error)
        else:
            self._begin_turn(state.turn, state.at, state.body, self._claimed.entries)

    def _begin_turn(self, number: int, at: int, body: bytes, entries: list[Stored]) -> None:
        try:
            sent = number == 1 or self.run.branch > 0  # a rewind may have brought back the input, plain as it came
            state = self.bodies.decode(body, self.flow.input_type(self.version) if sent else None)
            if self.version != self.flow.version:
                state = upcast(self.flow, state, self.version)
            self.turn = Turn(self, self.flow, number, at, state, entries)
        except Exception as error:  # noqa: BLE001 - the author's upcast, or a state their code cannot read
            told = described(error)
            self._trouble(Trouble.DIVERGED, f"the state of turn {number} cannot be read: {told['detail']}", told)
            return
        self.go_on()

    def go_on(self) -> None:
        """Let the body run until it is idle, then see what is next."""
        if self.turn is None or self.ended:
            return
        turn = self.turn
        try:
            if turn.replaying or turn.loop.ready:
                turn.advance()
            while self.arrived and not turn.reads and not self.ended:
                turn.hand_over(*self.arrived.popleft())
                turn.advance()
        except StoreError as error:
            self.unreadable(error)
        except TorporError as error:  # an endless loop in the body, for one
            self._fail(error)
        else:
            self.progress.start_pending()
            self.see_next()

    def see_next(self) -> None:
        """Ask what is to be done now. After a call ended the body has nothing new: first its outcome becomes durable."""
        turn = self.turn
        if self.ended or turn is None or turn.reads or self.commits.last is not None:
            return
        entries = self.commits.draft.entries
        only_steps = (entries or self.progress.steps) and not self.progress.more_than_steps
        if only_steps and not (
            turn.diverged or self.cancelling or self.draining or self.interrupts or turn.main.done()
        ):
            if entries and (turn.guests is None or not ahead.holds(self, turn)):
                self.commits.submit()  # most of what happens: steps run, and one of them ended
        elif turn.diverged is not None:
            self._diverged(turn.diverged)
        elif self.cancelling and not self.undoing:
            self._cancel(turn)
        elif turn.main.done() and not self.progress.effects_unresolved:
            self._end_turn(turn)
        elif self.interrupts and not self.undoing and interrupting.interrupt(self, turn):
            self._linger.end()
        elif self.draining and not (self.progress.effects.going or self.progress.steps):
            self._drain_on()
        else:
            self._go_on_waiting(turn)

    def _go_on_waiting(self, turn: Turn) -> None:
        if turn.main.done():
            self.progress.cancel_steps()  # only effects are waited for at the end of a turn
        consuming.consume(self)
        if self.commits.draft.entries:
            self._linger.end()
            self.commits.submit()
        elif not (self.progress.busy or self.commits.in_flight or (turn.guests is not None and turn.guests.busy)):
            self._suspend(turn)

    # what was committed

    def committed(self, proposal: Proposal, reply: Reply) -> None:
        """Take what became durable (commits.Commits)."""
        self.cancelling = self.cancelling or bool(reply.flags and Flag.CANCEL in reply.flags)
        first = self.head
        self.head += len(proposal.entries)
        self.worker.saw_time(reply.at)
        if proposal.waits or proposal.over or proposal.closes:
            endings.note_waits(self, proposal, first)
            self.commits.withdraw_late()
        if proposal.after is not State.RUNNING:
            self._left(proposal, reply)
        elif proposal.state_body is not None:
            self._next_turn(proposal, reply)
        else:
            self._hand_over(proposal, first, reply.at)

    def _hand_over(self, proposal: Proposal, first: int, at: int) -> None:
        """Give the body each new result in journal order, letting it run until idle in between; but not in a drain."""
        for seq, entry in enumerate(proposal.entries, start=first + 1):
            if entry.key is not None and entry.key == self.consuming and proposal is not self.behind:
                self.consuming = None
            if entry.kind in RESOLVES:
                self.progress.recorded(entry.key or "")
                self.arrived.append((entry, at))
            else:
                self.progress.effects.durable(entry, seq)
        self.see_next() if self.draining else self.go_on()  # whoever takes it over goes on: no effect begins in a drain

    def refused(self, reply: Reply) -> None:
        """Nothing was written: cancel was asked, a person was first, or a timer is not due by the store's clock."""
        if reply.refused is not None:
            self.cancelling = True
            self.consuming = None
            self.see_next()
        elif reply.early:
            self.worker.loop.call_later(LINGER_SECONDS, self.resubmit)
        else:
            self.worker.look_at(self)

    def resubmit(self) -> None:
        """Send again what is gathered, or see what is next."""
        if self.commits.last is not None or self.commits.draft.entries:
            self.commits.submit()
        else:
            self.see_next()

    # ends

    def _end_turn(self, turn: Turn) -> None:
        """End the turn: its open effects have outcomes; open steps are cancelled."""
        self.progress.cancel_steps()
        if self.commits.in_flight:
            return
        for complaint in turn.loop.cancel_leftovers():
            self.worker.log.warning("flow", run=self.name, said=complaint)
        if turn.main.cancelled():
            self._fail(TorporError("the flow was cancelled from inside: an asyncio.CancelledError left its body"))
            return
        error = turn.main.exception() or endings.forgotten(turn)
        if self.undoing and error is None:
            self._end_cancelled()
            return
        if error is not None:
            self._fail(error)
            return
        again, value = next_state(turn.main.result())
        try:
            if again:
                self.commits.end_with(endings.checkpoint(self, value, turn.turn))
            else:
                result = Entry(Kind.OUTCOME, None, self.bodies.encode(value, "the result"))
                self.commits.end_with(endings.finish(self, State.COMPLETED, result))
        except TorporError as unstorable:
            self._fail(unstorable)

    def _next_turn(self, proposal: Proposal, reply: Reply) -> None:
        self.commits.last = None
        self.version = self.flow.version
        self.run = self.run if proposal.program is None else self.run._replace(program=proposal.program)
        calls, self.progress = self.progress, Progress(self)
        self.consuming, self.spends = None, self.spends and calls.busy  # what was reserved has ended with the turn
        if not calls.busy:
            calls.fall_apart()
        old, self.turn = self.turn, None
        if old is not None:
            old.close()
        if self.cancelling:
            self._undo(proposal.turn)
        elif self.draining or (self.worker.others_wait and self.worker.loop.time() - self.born > SLICE_SECONDS):
            self.commits.end_with(endings.give_back(self, "drained" if self.draining else "yielded: others wait"))
        else:
            self._begin_turn(proposal.turn, reply.at, proposal.state_body or b"", [])

    def _fail(self, error: BaseException) -> None:
        recorded = self.bodies.encode(endings.failure(error), "the error")
        self.commits.end_with(endings.finish(self, State.FAILED, Entry(Kind.FAILURE, None, recorded)))

    # putting away

    def _suspend(self, turn: Turn) -> None:
        """Only waits are open: linger for what comes at once, else give the lease up."""
        open_waits = self.progress.open_waits()
        if not open_waits:
            self._fail(turn.loop.stuck())
            return
        if (not self.draining and self._linger.stay(open_waits)) or turn.forget_unasked():
            return
        self._linger.end()
        if self.trace is not None:
            self.trace.waits(open_waits)
        titles = [self.progress.title_of(wait) for wait in open_waits]
        self.commits.end_with(endings.suspend(self, open_waits, titles, waits.due_at(open_waits)), parking=True)

    def _left(self, proposal: Proposal, reply: Reply) -> None:
        """The lease is gone with the commit that gave it up."""
        self._stop()
        self.worker.left(self, reply.state, proposal)
        if not self.progress.busy and self.commits.silent:  # nothing is under way that may still come back
            self.progress.fall_apart()
            del self.progress, self.commits, self._linger  # see there

    def drain(self) -> None:
        """Let effects and paid answers in flight end, cancel other steps, and give the lease back: others go on at once."""
        self.draining = True
        if self._linger.active and self.turn is not None and not self.commits.pending:
            self._suspend(self.turn)  # nobody needs to go on with it
            return
        self.progress.cancel_steps(but_paid=True)
        if not self.commits.in_flight:
            self.progress.effects.forget_unsent()
            self.commits.draft = self.commits.draft.only_results()
        self.see_next()

    def _drain_on(self) -> None:
        self.progress.cancel_steps()
        if not self.commits.in_flight:
            self.commits.draft = self.commits.draft.only_results()
            self.commits.end_with(endings.give_back(self, "drained"))

    # trouble

    def _trouble(self, kind: Trouble, title: str, more: dict[str, Any]) -> None:
        """Put the run away for a person, saying what is wrong (G13)."""
        self.commits.end_with(endings.trouble(self, kind.name.lower(), title, more, self._asked))

    def unreadable(self, error: StoreError) -> None:
        """Put the run away because something large cannot be read: for a person, or until it may be reached (G13)."""
        self.progress.cancel_steps()
        if isinstance(error, StoreUnavailable):
            self.commits.end_with(endings.later(self, error.message, round(beginning.UNREADABLE_SECONDS * 1e6)))
        else:
            self._trouble(Trouble.UNREADABLE, error.message, {"hint": error.hint})

    def _diverged(self, diverged: Diverged) -> None:
        self.progress.cancel_steps()
        sides = {"recorded": diverged.recorded, "asked": diverged.asked, "hint": diverged.hint}
        self._trouble(Trouble.DIVERGED, diverged.message, sides)

    # cancel, loss

    def _cancel(self, turn: Turn) -> None:
        self.progress.cancel_steps()
        self.commits.draft = self.commits.draft.only_results()
        if not (self.progress.effects.past_gate or self.commits.in_flight):
            self._undo(turn.turn)
        elif self.commits.draft.entries:
            self.commits.submit()  # the outcome of an effect that acted when cancel was asked

    def _undo(self, turn: int, *, over: bool = False, stalled: bool = False) -> None:
        """The author's code is over; read what is to be undone. `over`: a person said to leave it."""
        self.undoing = True
        self.commits.forget_alone()
        self.progress.stop()
        self.progress.effects.going.clear()  # whoever still waits for its gate or its `verify` finds that it is over
        old, self.turn, self.progress, self.consuming = self.turn, None, Progress(self), None
        if old is not None:
            old.close()
        self.arrived.clear()
        self.worker.outside.to_undo(self, lambda found: self._undo_here(found, turn, over=over, stalled=stalled))

    def _undo_here(self, found: ToUndo | StoreError, turn: int, *, over: bool, stalled: bool) -> None:
        if self.ended:
            return
        plan = undoing.plan(self, found, over=over, trouble=POISONED if stalled else "")
        self._plan = plan
        if plan.unreadable is not None:
            self.unreadable(plan.unreadable)
        elif plan.trouble:
            self._trouble(Trouble.POISON if stalled else Trouble.DIVERGED, plan.trouble, {"hint": plan.hint})
        elif plan.steps:
            entries = [entry for entry in self._claimed.entries if belongs(entry.key)]
            self.turn = Turn(self, UNDO, turn, self._claimed.state.at, plan.steps, entries)
            self.go_on()
        else:
            self._end_cancelled()

    def _end_cancelled(self) -> None:
        self.commits.end_with(endings.finish(self, State.CANCELLED, undoing.last_entry(self, self._plan)))

    def lost(self, why: str) -> None:
        """Stop: this executor no longer owns the run. Nothing is written; nothing is started any more (G1, G2)."""
        if not self.ended:
            self.worker.log.warning("lease lost", run=self.name, why=why, epoch=self.lease.epoch, head=self.head)
            endings.settle_late(self)
            self._stop()
            self.worker.dropped(self, LeaseLost(f"{self.name}: {why}"))

    def _stop(self) -> None:
        self.ended = True
        self._linger.end()
        self.progress.stop()
        guests.end(self.kept)
        turn, self.turn = self.turn, None
        if turn is not None:
            for complaint in turn.close():
                self.worker.log.warning("flow", run=self.name, said=complaint)
