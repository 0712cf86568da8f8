"""Effects under way: from the intent, through the gate, to the outcome, or to a question for a person (G4, G5, G12).

    intent      to be made durable, with everything that was gathered
    gate        the last look: same life, life lock, lease, head, cancel
    running     the author's function acts
    recording   its outcome is being made durable
    asking      `verify` is asked what became of the last attempt

One whose outcome nobody knows leaves these stages and is a wait for a person. A `keyed` effect may be started again under
its old intent, because its key is the same. A `verify` or `once` effect that is done again is done under an intent of its
own: under the old one, whoever finds it later could believe its writer gone while this attempt is about to start (found by
the exploration).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.clock import as_datetime, micros
from torpor.core.effect import Gate, Resume, Safety, effect_key, on_resume
from torpor.core.journal import Entry, Kind
from torpor.core.replay import CallKind, shown
from torpor.core.wait import Open, Trouble, WaitKind
from torpor.errors import UnstorableValue
from torpor.sdk.steps import Answer, EffectContext
from torpor.worker.call import Call, Stage
from torpor.worker.tracing import Named
from torpor.worker.voice import Mute

if TYPE_CHECKING:
    from torpor.core.replay import Record
    from torpor.sdk.port import Request
    from torpor.worker.roles import Executor, Progress


class Effects:
    """The effects of one turn."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        """Begin with none."""
        self._executor = executor
        self._worker = executor.worker
        self._progress = progress
        self.going: dict[str, Call] = {}
        """By key, those that have an intent or are about to, and no outcome yet."""

    @property
    def past_gate(self) -> bool:
        """Whether one is acting, or its outcome is being recorded."""
        return any(call.stage in {Stage.RUNNING, Stage.RECORDING} for call in self.going.values())

    @property
    def acts(self) -> bool:
        """Whether one is past its gate, those left out that act in their own commit: that waits, or it is being sent."""
        past = (call for call in self.going.values() if call.stage in {Stage.RUNNING, Stage.RECORDING})
        return any(safety_of(call.request) is not Safety.TRANSACTIONAL for call in past)

    def forget_unsent(self) -> None:
        """Forget those whose intent was not sent yet."""
        self.going = {key: call for key, call in self.going.items() if call.stage is not Stage.INTENT}

    def begin(self, request: Request, record: Record | None) -> None:
        """Put an effect where the journal says it was, or begin it."""
        progress = self._progress
        safety = safety_of(request)
        if safety is Safety.TRANSACTIONAL:
            if not progress.pauses(request, record):
                progress.pending.append(Call(request, progress.attempts.get(request.key, 0) + 1))
            return
        if record is None or not record.intents:
            self.record_intent(request, 1)
            return
        intent = record.intents[-1]
        if record.wait is not None and record.wait.seq > intent.seq:
            asked = progress.questions.asked_before(request, record.wait.seq)
            if asked.slot < 0:  # nobody can answer what is not there: it is asked afresh (G13)
                self.unknown(request, "what a person was asked about it was lost")
            else:
                progress.waiting[request.key] = asked
            return
        call = Call(request, len(record.intents), Stage.GATE, intent.seq)
        verdict = on_resume(safety, intent=True, outcome=False, holder_gone=True)
        if verdict is Resume.RUN:
            if progress.pauses(request, record):
                return
            call.attempt = progress.attempts.get(request.key, 0) + 1
            self.going[request.key] = call
            self.ask_gate(call)
        elif record.notes and record.notes[-1].seq > intent.seq:  # it said that it did not happen (RateLimited)
            if not progress.pauses(request, record):
                self.record_intent(request, progress.attempts.get(request.key, 0) + 1)
        elif verdict is Resume.ASK:
            self.going[request.key] = call
            call.stage = Stage.ASKING
            self._worker.outside.ask_verify(self._executor, call, intent)
        else:
            self.unknown(request, "the worker that began it was lost before its outcome was recorded")

    def record_intent(self, request: Request, attempt: int) -> None:
        """Gather an intent: the arguments as they will be used, and the safety."""
        executor = self._executor
        intent = {
            "name": request.name,
            "safety": str(safety_of(request)),
            "worker": self._worker.number,
            "attempt": attempt,
            **request.values,
        }
        try:
            body = executor.bodies.encode(intent, f"the arguments of {request.name}")
        except UnstorableValue as error:
            self._progress.fail(request.key, error, attempt)
            return
        executor.commits.record(Entry(Kind.INTENT, request.key, body))
        self.going[request.key] = Call(request, attempt, Stage.INTENT)

    def durable(self, entry: Entry, seq: int) -> None:
        """Take note that an entry is durable; an intent goes on to its gate."""
        call = self.going.get(entry.key or "")
        if entry.kind is Kind.INTENT and call is not None and call.stage is Stage.INTENT:
            call.intent_seq = seq
            if self._executor.cancelling and not self._executor.undoing:
                del self.going[call.request.key]  # it never started, and the run ends
            else:
                self.ask_gate(call)

    def ask_gate(self, call: Call) -> None:
        """Ask whether the effect may start now."""
        call.stage = Stage.GATE
        self._worker.gate.ask(self._executor, safety_of(call.request), lambda verdict: self.gated(call, verdict))

    def gated(self, call: Call, verdict: Gate) -> None:
        """Take the gate's answer: start the effect, or not (G4, G12)."""
        executor = self._executor
        if executor.ended or self.going.get(call.request.key) is not call:
            return
        if verdict is Gate.STOP:
            executor.lost("the gate found another holder")
        elif verdict is Gate.CANCELLED or (
            executor.cancelling and not executor.undoing
        ):  # asked for before the gate was, or since
            executor.cancelling = True
            self.going.pop(call.request.key, None)
            executor.go_on()
        elif executor.draining and safety_of(call.request) is Safety.KEYED:
            self.going.pop(call.request.key, None)  # its successor's, under this very intent
            executor.see_next()
        else:
            call.stage = Stage.RUNNING
            self._progress.run(call)
            executor.see_next()

    def verified(self, call: Call, answer: Answer, why: str, error: BaseException | None) -> None:
        """Take what `verify` said of an effect whose outcome was not recorded, or which raised `error`.

        One that certainly did not happen is done under an intent of its own: under the old one, whoever finds it later
        could believe its writer gone while this attempt is about to start (G4, found by the exploration).
        """
        if self.going.get(call.request.key) is not call:
            return
        if answer.done:
            call.stage = Stage.RECORDING
            self._progress.succeeded(call.request, answer.result, call.attempt)
        elif answer.certain and error is not None and call.request.definition is not None:
            self._progress.again_or_failed(call, call.request.definition, error)
        elif answer.certain:
            self.record_intent(call.request, call.attempt + 1)
        else:
            self.going.pop(call.request.key, None)
            self.unknown(call.request, why)
        self._executor.go_on()

    def unknown(self, request: Request, why: str) -> None:
        """Ask a person what became of an effect."""
        self.going.pop(request.key, None)
        executor = self._executor
        body = {
            "trouble": Trouble.UNKNOWN_EFFECT.name.lower(),
            "effect": shown(request.key),
            "why": why,
            "safety": str(safety_of(request)),
            "key": key_of(executor, request),
            **request.values,
        }
        executor.commits.record(Entry(Kind.WAIT, request.key, executor.bodies.encode(body, "trouble")))
        slot = executor.commits.open_wait(WaitKind.ATTENTION, None, f"did {shown(request.key)} happen?")
        self._progress.waiting[request.key] = Open(request.key, WaitKind.ATTENTION, request.name, slot=slot)


def context_of(executor: Executor, call: Call) -> EffectContext:
    """Return what an effect is told about itself."""
    definition = call.request.definition
    seconds = definition.timeout_seconds if definition is not None else None
    deadline = as_datetime(executor.worker.now() + micros(seconds)) if seconds is not None else None
    return EffectContext(
        key_of(executor, call.request),
        call.attempt,
        deadline,
        executor.name,
        executor.worker.secrets.resolve,
        Mute(f"{call.request.name} is `transactional` and cannot emit: nothing of it is true before its commit")
        if safety_of(call.request) is Safety.TRANSACTIONAL
        else executor.commits.stream.voice(call.request.key),
        threads=executor.worker.calls.lend() if definition is not None and definition.within is not None else None,
    )


def span_of(executor: Executor, call: Call) -> Named:
    """Return what the span of an attempt says: no value (G15)."""
    request = call.request
    said: dict[str, str | int] = {
        "torpor.call": shown(request.key),
        "torpor.safety": str(safety_of(request)),
        "torpor.attempt": call.attempt,
    }
    if request.kind is CallKind.EFFECT:
        said["torpor.key"] = key_of(executor, request)
    return Named(f"torpor.step {request.name}", said)


def key_of(executor: Executor, request: Request) -> str:
    """Return a call's idempotency key (G5)."""
    number = executor.turn.turn if executor.turn is not None else 0
    return effect_key(executor.run.id, executor.run.branch, number, request.key)


def safety_of(request: Request) -> Safety:
    """Return what is known about doing a call again."""
    return request.definition.safety if request.definition is not None else Safety.REPEATABLE
