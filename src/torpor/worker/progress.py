"""How far each call of a turn is: steps running or pausing before the next attempt, effects under way, waits open.

Everything here is in memory only; the journal has what matters, and `begin` puts each call where the journal says it was.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from torpor.core.commit import NewMessage
from torpor.core.effect import After, Safety, after_exception
from torpor.core.ids import parse_run
from torpor.core.journal import Entry, Kind
from torpor.core.replay import CallKind, shown
from torpor.core.wait import Open, WaitKind
from torpor.errors import NotDone, RateLimited, TorporError, UnstorableValue
from torpor.worker import ahead, roused, undoing
from torpor.worker.acting import Effects, context_of, key_of, safety_of, span_of
from torpor.worker.arrivals import Arrivals
from torpor.worker.bodies import spread_of
from torpor.worker.call import Call, Stage, buys
from torpor.worker.calls import described
from torpor.worker.children import Children
from torpor.worker.questions import Questions
from torpor.worker.spending import SHARED, Spending

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from torpor.core.replay import Record
    from torpor.sdk.port import Request
    from torpor.sdk.steps import Definition
    from torpor.worker.roles import Executor


class Progress:
    """The calls of one turn."""

    def __init__(self, executor: Executor) -> None:
        """Begin with none."""
        self._executor = executor
        self._worker = executor.worker
        self.steps: dict[str, Call] = {}
        """Running steps by key."""
        self.effects = Effects(executor, self)
        self.questions = Questions(executor, self)
        self.children = Children(executor, self)
        self.spending = Spending(executor, self)
        self.arrivals = Arrivals(executor, self)
        self.waiting: dict[str, Open] = {}
        self.pending: list[Call] = []
        self.attempts: dict[str, int] = {}
        self.made_again: dict[str, int] = {}
        """How often each was made again after a rousal, since it last failed by itself."""

    def fall_apart(self) -> None:
        """Let go of the parts, which refer to this and its executor: it is over, and nothing comes back.

        Without circles they are freed at once. Left to the collector, which stops every thread, they were a fifth of the time
        when many runs came and went.
        """
        del self.effects, self.questions, self.children, self.spending, self.arrivals

    # what the executor asks

    @property
    def busy(self) -> bool:
        """Whether something other than a wait is under way."""
        return bool(self.steps or self.effects.going or self.pending or self.children.asking)

    @property
    def effects_unresolved(self) -> bool:
        """Whether an effect of this turn has no outcome yet, those included that wait for a retry or for a person."""
        if self.effects.going:
            return True
        turn = self._executor.turn
        return turn is not None and any(request.kind is CallKind.EFFECT for request in turn.open.values())

    @property
    def more_than_steps(self) -> bool:
        """Whether anything but running steps is under way."""
        return bool(self.waiting or self.pending or self.effects.going)

    @property
    def waits(self) -> bool:
        """Whether any wait is open."""
        return bool(self.waiting)

    def open_waits(self) -> list[Open]:
        """Return the open waits in the order they were opened, with the decisions that are known."""
        rows = self._executor.rows
        found = []
        for wait in self.waiting.values():
            if wait.kind is WaitKind.EVENT:
                found.append(wait._replace(accepts=self.arrivals.accepts(wait)))
                continue
            row = rows.get(wait.slot) if wait.kind.for_person else None
            known = wait if row is None else wait._replace(answered_at=row.answered_at, answer=row.answer)
            found.append(known)
        return found

    def title_of(self, wait: Open) -> str:
        """Return what a wait is for, in the words people see."""
        if wait.names:
            return self.children.title_of(wait)
        if wait.title:
            return f"{wait.kind.word} {wait.title}" if wait.kind.lasting else wait.title
        if wait.kind is WaitKind.MESSAGE:
            return f"message {wait.name}"
        if wait.kind is WaitKind.RATE:
            return f"rate {wait.name}"
        if wait.kind is WaitKind.BUDGET:
            return f"budget {wait.name}"
        if wait.kind is WaitKind.QUESTION:
            return f"answer {wait.name}"
        if wait.kind is WaitKind.RETRY:
            attempt = self.attempts.get(wait.key, 0)
            return f"retry {attempt or ''} of {shown(wait.key)}".replace("  ", " ")
        if wait.kind is WaitKind.APPROVAL:
            return f"approve {wait.name}"
        return f"settle {shown(wait.key)}" if wait.kind is WaitKind.ATTENTION else "timer"

    def name_of(self, running: asyncio.Task[Any]) -> str:
        """Return the name of the call that runs as this task, or nothing. Asked from another thread, too."""
        calls = [*self.steps.values(), *self.effects.going.values()]
        return next((shown(call.request.key) for call in calls if call.running is running), "")

    # beginning

    def begin(self, request: Request, record: Record | None) -> None:
        """Put a call where the journal says it was, or begin it."""
        match request.kind:
            case CallKind.STEP:
                if record is None or not self.pauses(request, record):
                    self.pending.append(Call(request, self.attempts.get(request.key, 0) + 1))
            case CallKind.EFFECT:
                self.effects.begin(request, record)
            case CallKind.TIMER if request.timer is not None:
                self.waiting[request.key] = Open(request.key, WaitKind.TIMER, due_at=request.timer.due_at)
            case CallKind.MESSAGE:
                self.waiting[request.key] = Open(request.key, WaitKind.MESSAGE, request.name)
            case CallKind.APPROVAL | CallKind.ASK:
                self.questions.begin(request, record)
            case CallKind.SPAWN | CallKind.JOIN:
                self.children.begin(request, record)
            case CallKind.BUDGET | CallKind.RATE:
                self.spending.begin(request, record)
            case CallKind.COMPENSATION:
                undoing.register(self._executor, request)
            case CallKind.CALLBACK | CallKind.EVENT | CallKind.REQUEST | CallKind.REPLY:
                self.arrivals.begin(request, record)
            case CallKind.SEND:
                self._send(request)

    def pauses(self, request: Request, record: Record | None) -> bool:
        """Whether failed attempts on record make it wait; counts them."""
        if record is None or not record.notes:
            return False
        last = self._executor.bodies.decode(record.notes[-1].body)
        self.attempts[request.key] = int(last["attempt"])
        again_at = int(last["again_at"])
        if again_at > self._worker.now():
            self.waiting[request.key] = Open(request.key, WaitKind.RETRY, request.name, due_at=again_at)
            return True
        return False

    def _send(self, request: Request) -> None:
        executor = self._executor
        try:
            target = parse_run(str(request.values["to"]))[1]
            body = executor.bodies.encode(request.values["value"], f"the value of signal {request.name}")
        except TorporError as error:
            self.fail(request.key, error, 1)
            return
        executor.commits.message(NewMessage(target, request.name, key_of(executor, request), body))
        executor.commits.record(Entry(Kind.OUTCOME, request.key, None))

    # running

    def start_pending(self) -> None:
        """Start what the body asked for, now that its own loop is left."""
        if not self.pending or self._executor.draining or ahead.given(self._executor.turn):
            return
        pending, self.pending = self.pending, []
        for call in pending:
            if call.request.withdrawn:
                continue
            if call.request.kind is CallKind.STEP:
                self.steps[call.request.key] = call
                self.run(call)
            elif call.request.kind in SHARED:
                self.spending.start(call)
            else:
                self.effects.going[call.request.key] = call
                self._worker.outside.transactional(self._executor, call)

    def run(self, call: Call) -> None:
        """Run the author's function, as soon as the worker may act."""
        request = call.request
        definition = request.definition
        if definition is None or roused.held(self._executor, call):
            return
        context = call.context = context_of(self._executor, call) if definition.takes_context else None
        self.attempts[request.key] = call.attempt
        done: Callable[[Any, BaseException | None], None] = partial(self._ended, call)
        trace, within = self._executor.trace, definition.within
        if trace is not None:
            within, done = trace.attempt(span_of(self._executor, call), done, within)
        call.running = self._worker.calls.start(definition, request.values, context, done, within)

    def _ended(self, call: Call, result: Any, error: BaseException | None) -> None:
        """Take the end of a call: record its outcome, or try again, or ask a person."""
        executor, request = self._executor, call.request
        threads = call.context.threads if call.context is not None else None
        going_on = threads.give_up() if threads is not None else []
        if call.stage is Stage.LET_GO:
            self._let_go(call, error, going_on)
            return
        if executor.ended:
            if request.kind is CallKind.EFFECT:
                self._worker.outside.settle_late(executor, call, result, error)
            return
        if request.kind is CallKind.STEP:
            if self.steps.pop(request.key, None) is None:
                return  # it was cancelled and nobody waits for it any more
        else:
            call.stage = Stage.RECORDING
        if call.context is not None and call.context.settles:
            executor.commits.draft.settles = (*executor.commits.draft.settles, *call.context.settles)
        if error is None:
            self.succeeded(request, result, call.attempt)
        else:
            self.failed(call, error, in_thread=bool(going_on))
        if call.running is not None:
            executor.see_next()  # else it ended while it was being started, and whoever starts calls asks afterwards

    def succeeded(self, request: Request, result: Any, attempt: int) -> None:
        """Record what a call gave back."""
        try:
            body = self._executor.bodies.encode(result, f"the result of {request.name}")
        except UnstorableValue as error:
            self.fail(request.key, error, attempt)
            return
        self._executor.commits.record(Entry(Kind.OUTCOME, request.key, body))

    def _let_go(self, call: Call, error: BaseException | None, going_on: list[Future[Any]]) -> None:
        """Log the end of a call that was interrupted, and for whose end nobody waits; a thread's when it comes."""
        log, loop, said = self._worker.log, self._worker.loop, _told(error)
        fields = {"run": self._executor.name, "call": shown(call.request.key)}
        if not going_on:
            log.info("an interrupted call ended", **fields, said=said)
            return
        log.info("an interrupted call goes on", **fields, said="it runs in a thread, which nobody can stop")

        def ended(thread: Future[Any]) -> None:
            with suppress(RuntimeError):  # the loop is closed
                said = _told(thread.exception())
                loop.call_soon_threadsafe(partial(log.info, "an interrupted call ended", **fields, said=said))

        for thread in going_on:
            thread.add_done_callback(ended)

    def failed(self, call: Call, error: BaseException, *, in_thread: bool = False) -> None:
        """Take a failed attempt: again later, failed for good, or unknown."""
        request = call.request
        definition = request.definition
        if definition is None:
            return
        if isinstance(error, RateLimited):
            self.spending.limited(call, error)
            return
        verdict = after_exception(definition.safety, not_done=isinstance(error, NotDone))
        if verdict is After.UNKNOWN:
            late = isinstance(error, TimeoutError) and (in_thread or not definition.is_async)
            still = "; its thread cannot be stopped and may still act" if late else ""
            hint = f"; hint: {error.hint}" if isinstance(error, TorporError) and error.hint else ""
            self.effects.unknown(request, f"it raised {type(error).__name__}: {error}{still}{hint}")
            return
        if verdict is After.ASK:
            call.stage = Stage.ASKING
            self._worker.outside.ask_verify(self._executor, call, error)
            return
        self.again_or_failed(call, definition, error)

    def again_or_failed(self, call: Call, definition: Definition, error: BaseException) -> None:
        """Try a failed call again later, or record that it failed for good; at once after a rousal."""
        request = call.request
        if roused.made_again(self._executor, call, error):
            return
        self.made_again.pop(request.key, None)
        now = self._worker.now()
        again_at = definition.retry.again_at(
            attempt=call.attempt, error=type(error).__name__, now=now, spread=spread_of(request.key)
        )
        if again_at is None:
            self.fail(request.key, error, call.attempt)
            return
        self.effects.going.pop(request.key, None)
        note = {"note": "attempt", "attempt": call.attempt, "again_at": again_at, **described(error)}
        self._executor.commits.record(Entry(Kind.NOTE, request.key, self._executor.bodies.encode(note, "note")))
        self.waiting[request.key] = Open(request.key, WaitKind.RETRY, request.name, due_at=again_at)

    def fail(self, key: str, error: BaseException, attempts: int) -> None:
        """Record that a call failed for good; of a compensation a person is asked."""
        turn = self._executor.turn
        if self._executor.undoing and turn is not None and key in turn.open:
            self.effects.unknown(turn.open[key], f"it failed for good: {described(error)['detail']}")
            return
        body = self._executor.bodies.encode({**described(error), "attempts": attempts}, "error")
        self._executor.commits.record(Entry(Kind.FAILURE, key, body))

    def retry(self, key: str) -> None:
        """Try a call again whose pause is over."""
        self.waiting.pop(key, None)
        turn = self._executor.turn
        request = turn.open.get(key) if turn is not None else None
        if request is None:
            return
        call = Call(request, self.attempts.get(key, 0) + 1)
        if request.kind is CallKind.STEP:
            self.steps[key] = call
            self.run(call)
        elif safety_of(request) is Safety.TRANSACTIONAL:
            self.effects.going[key] = call
            self._worker.outside.transactional(self._executor, call)
        elif safety_of(request) is Safety.KEYED:
            self.effects.going[key] = call
            self.effects.ask_gate(call)
        else:
            self.effects.record_intent(request, call.attempt)
            self._executor.commits.submit()

    def recorded(self, key: str) -> None:
        """Take note that what resolved a call is durable."""
        self.effects.going.pop(key, None)
        self.waiting.pop(key, None)

    # taking back

    def withdrawn(self, request: Request) -> None:
        """Take back a call the code no longer waits for. An effect past its gate is not among them: it is waited for."""
        wait = self.waiting.pop(request.key, None)
        if wait is not None and wait.kind.lasting:
            self.questions.withdrawn(wait)
        call = self.steps.pop(request.key, None)
        if call is not None and call.running is not None:
            call.running.cancel()

    def acts(self, request: Request) -> bool:
        """Whether a step or effect has begun and not ended."""
        call = self.steps.get(request.key) or self.effects.going.get(request.key)
        return call is not None and call.stage is Stage.RUNNING and call.running is not None

    def interrupted(self, request: Request) -> None:
        """Take back a call that somebody interrupts; an effect whose intent was sent acts, and is let go."""
        step = self.steps.get(request.key)
        if step is not None:
            step.stage = Stage.LET_GO
        self.withdrawn(request)
        self.pending = [call for call in self.pending if call.request is not request]
        call = self.effects.going.pop(request.key, None)
        if call is not None and call.stage is Stage.INTENT:
            self._executor.commits.draft.drop_intent(request.key)
        elif call is not None and call.running is not None:
            call.stage = Stage.LET_GO
            self._worker.outside.keep(self._executor.run.id, call)
            call.running.cancel()

    def cancel_steps(self, *, but_paid: bool = False) -> None:
        """Cancel running steps: they may be run again. `but_paid`: one whose answer is paid for goes on."""
        steps = {key: call for key, call in self.steps.items() if not (but_paid and buys(call))}
        self.steps = {key: call for key, call in self.steps.items() if key not in steps}
        self.pending = [call for call in self.pending if call.request.kind is not CallKind.STEP]
        for call in steps.values():
            if call.running is not None:
                call.running.cancel()

    def stop(self) -> None:
        """Start nothing more. Steps are cancelled; an effect that acts goes on, and may settle late."""
        self.cancel_steps()
        self.pending.clear()
        self.waiting.clear()
        for call in self.effects.going.values():
            if call.running is not None and not call.running.done():
                self._worker.outside.keep(self._executor.run.id, call)


def _told(error: BaseException | None) -> str:
    """Say how a call ended that nobody waits for, without what it gave back (G15)."""
    if error is None:
        return "it gave something back, which nobody gets"
    return "it stopped" if isinstance(error, asyncio.CancelledError) else f"it raised {type(error).__name__}"
