"""How far each call of a turn is: steps running, effects between intent and outcome, waits open.

An effect goes through stages: `intent` (to be made durable), `gate` (being asked), `running`, `recording`; or it is
`unknown` and a wait for a person. A step is running, or waits for its next attempt. Everything here is in memory only; the
journal has what matters, and `begin` puts each call where the journal says it was.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from torpor.clock import as_datetime, micros
from torpor.core.commit import NewMessage
from torpor.core.effect import After, Gate, Resume, Safety, after_exception, effect_key, on_resume
from torpor.core.ids import parse_run
from torpor.core.journal import Entry, Kind
from torpor.core.replay import CallKind, shown
from torpor.core.wait import Delivery, Open, Trouble, WaitKind
from torpor.errors import NotDone, TorporError, UnstorableValue
from torpor.sdk.steps import Answer, EffectContext
from torpor.store import values
from torpor.worker.bodies import spread_of
from torpor.worker.calls import described

if TYPE_CHECKING:
    from torpor.core.replay import Record
    from torpor.sdk.port import Request
    from torpor.sdk.steps import Definition
    from torpor.worker.executor import Executor


class Stage(Enum):
    """How far an effect is."""

    INTENT = auto()
    GATE = auto()
    RUNNING = auto()
    RECORDING = auto()
    ASKING = auto()
    """Its `verify` is being asked what became of the last attempt."""


@dataclass(slots=True)
class Call:
    """A step or effect that is under way."""

    request: Request
    attempt: int
    stage: Stage = Stage.RUNNING
    intent_seq: int = 0
    running: asyncio.Future[Any] | None = None


class Progress:
    """The calls of one turn."""

    def __init__(self, executor: Executor) -> None:
        """Begin with none."""
        self._executor = executor
        self._worker = executor.worker
        self._steps: dict[str, Call] = {}
        self._effects: dict[str, Call] = {}
        self._waiting: dict[str, Open] = {}
        self._pending: list[Call] = []
        self._attempts: dict[str, int] = {}

    # what the executor asks

    @property
    def busy(self) -> bool:
        """Whether something other than a wait is under way."""
        return bool(self._steps or self._effects or self._pending)

    @property
    def effects_open(self) -> bool:
        """Whether an effect has an intent and no outcome yet, apart from those a person must settle."""
        return bool(self._effects)

    @property
    def effects_unresolved(self) -> bool:
        """Whether an effect of this turn has no outcome yet, those included that wait for a retry or for a person."""
        if self._effects:
            return True
        turn = self._executor.turn
        return turn is not None and any(request.kind is CallKind.EFFECT for request in turn.open.values())

    def forget_unsent(self) -> None:
        """Forget effects whose intent was not sent yet."""
        self._effects = {key: call for key, call in self._effects.items() if call.stage is not Stage.INTENT}

    @property
    def effects_past_gate(self) -> bool:
        """Whether an effect is acting, or its outcome is being recorded."""
        return any(call.stage in {Stage.RUNNING, Stage.RECORDING} for call in self._effects.values())

    @property
    def waits(self) -> bool:
        """Whether any wait is open."""
        return bool(self._waiting)

    def open_waits(self) -> list[Open]:
        """Return the open waits in the order they were opened, with the decisions that are known."""
        rows = self._executor.rows
        found = []
        for wait in self._waiting.values():
            row = rows.get(wait.slot) if wait.kind.for_person else None
            known = wait if row is None else wait._replace(answered_at=row.answered_at, answer=row.answer)
            found.append(known)
        return found

    def title_of(self, wait: Open) -> str:
        """Return what a wait is for, in the words people see."""
        if wait.kind is WaitKind.MESSAGE:
            return f"message {wait.name}"
        if wait.kind is WaitKind.RETRY:
            return f"retry {self._attempts.get(wait.key, 0)} of {shown(wait.key)}"
        if wait.kind is WaitKind.APPROVAL:
            return f"approve {wait.name}"
        return f"settle {shown(wait.key)}" if wait.kind is WaitKind.ATTENTION else "timer"

    # beginning

    def begin(self, request: Request, record: Record | None) -> None:
        """Put a call where the journal says it was, or begin it."""
        match request.kind:
            case CallKind.STEP:
                self._begin_step(request, record)
            case CallKind.EFFECT:
                self._begin_effect(request, record)
            case CallKind.TIMER if request.timer is not None:
                self._waiting[request.key] = Open(request.key, WaitKind.TIMER, due_at=request.timer.due_at)
            case CallKind.MESSAGE:
                self._waiting[request.key] = Open(request.key, WaitKind.MESSAGE, request.name)
            case CallKind.APPROVAL:
                self._begin_approval(request, record)
            case CallKind.SEND:
                self._send(request)

    def _begin_step(self, request: Request, record: Record | None) -> None:
        if not self._due_for_retry(request, record, WaitKind.RETRY):
            self._pending.append(Call(request, self._attempts.get(request.key, 0) + 1))

    def _due_for_retry(self, request: Request, record: Record | None, kind: WaitKind) -> bool:
        """Whether failed attempts on record make it wait; counts them."""
        if record is None or not record.notes:
            return False
        last = self._executor.bodies.decode(record.notes[-1].body)
        self._attempts[request.key] = int(last["attempt"])
        again_at = int(last["again_at"])
        if again_at > self._executor.now():
            self._waiting[request.key] = Open(request.key, kind, request.name, due_at=again_at)
            return True
        return False

    def _begin_effect(self, request: Request, record: Record | None) -> None:
        safety = _safety(request)
        if safety is Safety.TRANSACTIONAL:
            if not self._due_for_retry(request, record, WaitKind.RETRY):
                self._pending.append(Call(request, self._attempts.get(request.key, 0) + 1))
            return
        if record is None or not record.intents:
            self._record_intent(request, 1)
            return
        intent = record.intents[-1]
        if record.wait is not None and record.wait.seq > intent.seq:
            self._waiting[request.key] = self._asked_before(request, record.wait.seq)
            return
        call = Call(request, len(record.intents), Stage.GATE, intent.seq)
        verdict = on_resume(safety, intent=True, outcome=False, holder_gone=True)
        if verdict is Resume.RUN:
            if self._due_for_retry(request, record, WaitKind.RETRY):
                return
            call.attempt = self._attempts.get(request.key, 0) + 1
            self._effects[request.key] = call
            self._ask_gate(call)
        elif verdict is Resume.ASK:
            self._effects[request.key] = call
            call.stage = Stage.ASKING
            self._worker.ask_verify(self._executor, call, intent)
        else:
            self._unknown(request, "the worker that began it was lost before its outcome was recorded")

    def _asked_before(self, request: Request, seq: int) -> Open:
        kind = WaitKind.ATTENTION if request.kind is CallKind.EFFECT else WaitKind.APPROVAL
        row = next((r for r in self._executor.rows.values() if r.seq == seq), None)
        name = request.name if request.kind is CallKind.EFFECT else str(request.values["title"])
        if row is None:
            return Open(request.key, kind, name, slot=-1)
        return Open(request.key, kind, name, row.due_at, slot=row.slot)

    def _begin_approval(self, request: Request, record: Record | None) -> None:
        executor = self._executor
        title = str(request.values["title"])
        if record is not None and record.wait is not None:
            self._waiting[request.key] = self._asked_before(request, record.wait.seq)
            return
        expires = request.expires_seconds
        turn = executor.turn
        opened_at = turn.loop.now if turn is not None else executor.now()
        due_at = None if expires is None else max(opened_at, executor.now()) + micros(expires)
        shown_value = {
            "title": title,
            "show": request.values["show"],
            "due_at": due_at,
            "digest": values.digest(request.values, path="approval").hex(),
        }
        executor.commits.record(Entry(Kind.WAIT, request.key, executor.bodies.encode(shown_value, "approval")))
        slot = executor.commits.open_wait(WaitKind.APPROVAL, due_at, title)
        self._waiting[request.key] = Open(request.key, WaitKind.APPROVAL, title, due_at, slot=slot)

    def _send(self, request: Request) -> None:
        executor = self._executor
        try:
            target = parse_run(str(request.values["to"]))[1]
            body = executor.bodies.encode(request.values["value"], f"the value of signal {request.name}")
        except TorporError as error:
            self._fail(request.key, error, 1)
            return
        executor.commits.message(NewMessage(target, request.name, self._key(request), body))
        executor.commits.record(Entry(Kind.OUTCOME, request.key, None))

    # running

    def start_pending(self) -> None:
        """Start what the body asked for, now that its own loop is left."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        for call in pending:
            if call.request.withdrawn:
                continue
            if call.request.kind is CallKind.STEP:
                self._steps[call.request.key] = call
                self._run(call)
            else:
                self._effects[call.request.key] = call
                self._worker.transactional(self._executor, call)

    def _run(self, call: Call) -> None:
        request = call.request
        definition = request.definition
        if definition is None:
            return
        context = self.context(call) if definition.takes_context else None
        self._attempts[request.key] = call.attempt
        call.running = self._worker.calls.start(definition, request.values, context, partial(self._ended, call))

    def context(self, call: Call) -> EffectContext:
        """Return what an effect is told about itself."""
        definition = call.request.definition
        seconds = definition.timeout_seconds if definition is not None else None
        deadline = as_datetime(self._executor.now() + micros(seconds)) if seconds is not None else None
        return EffectContext(
            self._key(call.request), call.attempt, deadline, self._executor.name, self._executor.secret
        )

    def _key(self, request: Request) -> str:
        executor = self._executor
        number = executor.turn.turn if executor.turn is not None else 0
        return effect_key(executor.run.id, executor.run.branch, number, request.key)

    def _ended(self, call: Call, result: Any, error: BaseException | None) -> None:  # noqa: ANN401 - whatever the author returns
        """Take the end of a call: record its outcome, or try again, or ask a person."""
        executor, request = self._executor, call.request
        if executor.ended:
            if request.kind is CallKind.EFFECT:
                self._worker.settle_late(executor, call, result, error)
            return
        if request.kind is CallKind.STEP:
            if self._steps.pop(request.key, None) is None:
                return  # it was cancelled and nobody waits for it any more
        else:
            call.stage = Stage.RECORDING
        if error is None:
            self._succeeded(request, result, call.attempt)
        else:
            self.failed(call, error)
        executor.call_ended()

    def _succeeded(self, request: Request, result: Any, attempt: int) -> None:  # noqa: ANN401 - whatever the author returns
        try:
            body = self._executor.bodies.encode(result, f"the result of {request.name}")
        except UnstorableValue as error:
            self._fail(request.key, error, attempt)
            return
        self._executor.commits.record(Entry(Kind.OUTCOME, request.key, body))

    def failed(self, call: Call, error: BaseException) -> None:
        """Take a failed attempt: again later, failed for good, or unknown."""
        request = call.request
        definition = request.definition
        if definition is None:
            return
        verdict = after_exception(definition.safety, not_done=isinstance(error, NotDone))
        if verdict is After.UNKNOWN:
            self._effects.pop(request.key, None)
            self._unknown(request, f"it raised {type(error).__name__}: {error}")
            return
        if verdict is After.ASK:
            call.stage = Stage.ASKING
            self._worker.ask_verify(self._executor, call, error)
            return
        self._again_or_failed(call, definition, error)

    def _again_or_failed(self, call: Call, definition: Definition, error: BaseException) -> None:
        request = call.request
        now = self._executor.now()
        again_at = definition.retry.again_at(
            attempt=call.attempt, error=type(error).__name__, now=now, spread=spread_of(request.key)
        )
        if again_at is None:
            self._fail(request.key, error, call.attempt)
            return
        self._effects.pop(request.key, None)
        note = {"note": "attempt", "attempt": call.attempt, "again_at": again_at, **described(error)}
        self._executor.commits.record(Entry(Kind.NOTE, request.key, self._executor.bodies.encode(note, "note")))
        self._waiting[request.key] = Open(request.key, WaitKind.RETRY, request.name, due_at=again_at)

    def _fail(self, key: str, error: BaseException, attempts: int) -> None:
        body = self._executor.bodies.encode({**described(error), "attempts": attempts}, "error")
        self._executor.commits.record(Entry(Kind.FAILURE, key, body))

    def retry(self, key: str) -> None:
        """Try a call again whose pause is over."""
        self._waiting.pop(key, None)
        turn = self._executor.turn
        request = turn.open.get(key) if turn is not None else None
        if request is None:
            return
        call = Call(request, self._attempts.get(key, 0) + 1)
        if request.kind is CallKind.STEP:
            self._steps[key] = call
            self._run(call)
        elif _safety(request) is Safety.TRANSACTIONAL:
            self._effects[key] = call
            self._worker.transactional(self._executor, call)
        elif _safety(request) is Safety.KEYED:
            self._effects[key] = call
            self._ask_gate(call)
        else:
            self._record_intent(request, call.attempt)
            self._executor.commits.submit()

    # effects

    def _record_intent(self, request: Request, attempt: int) -> None:
        executor = self._executor
        intent = {
            "name": request.name,
            "safety": str(_safety(request)),
            "worker": self._worker.number,
            "attempt": attempt,
            **request.values,
        }
        try:
            body = executor.bodies.encode(intent, f"the arguments of {request.name}")
        except UnstorableValue as error:
            self._fail(request.key, error, attempt)
            return
        executor.commits.record(Entry(Kind.INTENT, request.key, body))
        self._effects[request.key] = Call(request, attempt, Stage.INTENT)

    def durable(self, entry: Entry, seq: int) -> None:
        """Take note that an entry is durable; an intent goes on to its gate."""
        call = self._effects.get(entry.key or "")
        if entry.kind is Kind.INTENT and call is not None and call.stage is Stage.INTENT:
            call.intent_seq = seq
            if self._executor.cancelling:
                del self._effects[call.request.key]  # it never started, and the run ends
            else:
                self._ask_gate(call)

    def recorded(self, key: str) -> None:
        """Take note that what resolved a call is durable."""
        self._effects.pop(key, None)
        self._waiting.pop(key, None)

    def _ask_gate(self, call: Call) -> None:
        call.stage = Stage.GATE
        self._worker.gate.ask(self._executor, _safety(call.request), lambda verdict: self.gated(call, verdict))

    def gated(self, call: Call, verdict: Gate) -> None:
        """Take the gate's answer: start the effect, or not (G4, G12)."""
        executor = self._executor
        if executor.ended:
            return
        if verdict is Gate.STOP:
            executor.lost("the gate found another holder")
        elif verdict is Gate.CANCELLED:
            executor.cancelling = True
            self._effects.pop(call.request.key, None)
            executor.go_on()
        else:
            call.stage = Stage.RUNNING
            self._run(call)

    def verified(self, call: Call, answer: Answer, why: str, error: BaseException | None) -> None:
        """Take what `verify` said of an effect whose outcome was not recorded, or which raised `error`.

        One that certainly did not happen is done under an intent of its own: under the old one, whoever finds it later
        could believe its writer gone while this attempt is about to start (G4, found by the exploration).
        """
        if self._executor.ended:
            return
        if answer.done:
            call.stage = Stage.RECORDING
            self._succeeded(call.request, answer.result, call.attempt)
        elif answer.certain and error is not None and call.request.definition is not None:
            self._again_or_failed(call, call.request.definition, error)
        elif answer.certain:
            self._record_intent(call.request, call.attempt + 1)
        else:
            self._effects.pop(call.request.key, None)
            self._unknown(call.request, why)
        self._executor.go_on()

    def _unknown(self, request: Request, why: str) -> None:
        """Ask a person what became of an effect."""
        executor = self._executor
        body = {
            "trouble": Trouble.UNKNOWN_EFFECT.name.lower(),
            "effect": shown(request.key),
            "why": why,
            "safety": str(_safety(request)),
            "key": self._key(request),
            **request.values,
        }
        executor.commits.record(Entry(Kind.WAIT, request.key, executor.bodies.encode(body, "trouble")))
        slot = executor.commits.open_wait(WaitKind.ATTENTION, None, f"did {shown(request.key)} happen?")
        self._waiting[request.key] = Open(request.key, WaitKind.ATTENTION, request.name, slot=slot)

    # deciding

    def decided(self, wait: Open, delivery: Delivery) -> None:
        """Turn a person's decision, or an expiry, into entries."""
        executor = self._executor
        turn = executor.turn
        row = executor.rows.get(wait.slot)
        request = turn.open.get(wait.key) if turn is not None else None
        answer = executor.bodies.decode(wait.answer) if delivery.decided else {}
        self._waiting.pop(wait.key, None)
        if wait.kind is WaitKind.APPROVAL:
            value = {
                "approved": bool(answer.get("approved", False)),
                "by": str(answer.get("by", "")),
                "note": str(answer.get("note", "")),
                "at": delivery.at,
                "expired": not delivery.decided,
            }
            executor.commits.record(Entry(Kind.CONSUMED, wait.key, executor.bodies.encode(value, "decision")))
            if not delivery.decided and row is not None:
                executor.commits.draft.closes = (*executor.commits.draft.closes, (wait.slot, row.seq))
                self._waiting[wait.key] = wait  # until the close is durable: a decision may have come first
                return
        elif "happened" in answer:
            body = executor.bodies.encode(answer["happened"], "the result a person gave")
            executor.commits.record(Entry(Kind.OUTCOME, wait.key, body))
        elif answer.get("again") and request is not None:
            self._record_intent(request, self._attempts.get(wait.key, 1) + 1)
        else:
            text = str(answer.get("fail") or "a person said that it failed")
            executor.commits.record(Entry(Kind.FAILURE, wait.key, executor.bodies.encode({"kind": "Settled", "detail": text}, "error")))
        if wait.slot >= 0:
            executor.commits.draft.over = (*executor.commits.draft.over, wait.slot)

    # taking back

    def withdrawn(self, request: Request) -> None:
        """Take back a call the code no longer waits for. An effect past its gate is not among them: it is waited for."""
        wait = self._waiting.pop(request.key, None)
        if wait is not None and wait.kind.for_person:
            row = self._executor.rows.get(wait.slot)
            if row is not None and row.answered_at is None:
                draft = self._executor.commits.draft
                draft.closes = (*draft.closes, (wait.slot, row.seq))
                note = self._executor.bodies.encode({"note": "withdrawn"}, "note")
                self._executor.commits.record(Entry(Kind.NOTE, None, note))
        call = self._steps.pop(request.key, None)
        if call is not None and call.running is not None:
            call.running.cancel()

    def cancel_steps(self) -> None:
        """Cancel running steps: they may be run again."""
        steps, self._steps = self._steps, {}
        self._pending = [call for call in self._pending if call.request.kind is not CallKind.STEP]
        for call in steps.values():
            if call.running is not None:
                call.running.cancel()

    def stop(self) -> None:
        """Start nothing more. Steps are cancelled; an effect that acts goes on, and may settle late."""
        self.cancel_steps()
        self._pending.clear()
        self._waiting.clear()
        for call in self._effects.values():
            if call.running is not None and not call.running.done():
                self._worker.outside.keep(self._executor.run.id, call)


def _safety(request: Request) -> Safety:
    return request.definition.safety if request.definition is not None else Safety.REPEATABLE
