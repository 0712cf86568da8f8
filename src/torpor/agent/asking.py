"""Asking a model: each attempt is a step of its own, paid out of a reservation; what goes wrong is sorted, and waited out.

One model call of a turn, attempt by attempt:

    rate      the agent's place in the rate bucket of its model, if a limit is declared
    reserve   what the attempt may cost at most, in every budget above the run, or a wait for a person
    ask       the step `model`, known by the attempt's number. Its commit records the answer and settles the reservation; or it
              records what went wrong (`agent.trouble`), which takes back what was streamed, and settles what was bought
    wait out  a pause, what the provider asked for, a smaller window, a person; then the next attempt

A reservation on record and no attempt that used it up: the process died in between, and perhaps the provider was paid. That
attempt is **paid, lost**: its reservation is kept as spent when the turn ends, and the model is asked again under the next
number, with a reservation of its own. So money is never counted less than it was, and at most one answer is bought twice for
each death (G3).

A model whose price nobody knows reserves the smallest amount there is, once for each stretch: a budget of nothing asks a
person also before its first call, and calls that cost nothing one can count cost no commit.

What a provider asked for in "not now" is remembered by the process: other runs on the same model do not ask before.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import ModelResponse, TextPart, TextPartDelta
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel

from torpor.agent import parts, prices, spans, trouble
from torpor.agent.calls import definition
from torpor.agent.transcript import read, stored
from torpor.agent.window import weight
from torpor.clock import as_datetime, micros
from torpor.core.effect import Safety
from torpor.core.replay import CallKind
from torpor.errors import StepFailed, TorporError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from torpor.agent.conversation import Conversation
    from torpor.sdk.steps import EffectContext

MODEL = "model"
MOST_RETRIES = 8
"""After so many pauses in a row a person is asked."""
MOST_CUTS = 2
"""So often the window is halved for a provider that says it is too long."""
_LEAST_WINDOW = 500
_AGAIN, _FAIL = "again", "fail"
_AGAIN_ASKED = ". Again?"
QUESTION_LETTERS = 300
"""What of a question stands in a list: what a provider said is cut, so that the hint and what is asked are in it."""
_LEAST_LETTERS = 60
_RETRIES = "max_retries"
"""The setting of pydantic-ai that tells a provider's client how often to try again (settings.py, ModelSettings)."""

_not_before: dict[str, int] = {}
"""Until when a provider wants to be left alone, by rate bucket: the store's time, in microseconds."""


_unpriced: set[str] = set()
"""Models, by rate bucket, of which this process has said that nobody knows their price."""


def forget_pauses() -> None:
    """Forget what providers said to this process, and what it said of them: for tests, and for whoever changed an account."""
    _not_before.clear()
    _unpriced.clear()


class ModelTrouble(TorporError):
    """What went wrong with a model call, sorted. `said` is what the next attempt must know."""

    def __init__(self, verdict: trouble.Verdict) -> None:
        """Carry a verdict."""
        why = verdict.title if isinstance(verdict, trouble.Attention) else verdict.why
        super().__init__(why, hint=getattr(verdict, "hint", ""))
        self.said: dict[str, Any] = {"verdict": type(verdict).__name__}
        if isinstance(verdict, trouble.Retry):
            self.said["seconds"] = verdict.after_seconds
        elif isinstance(verdict, trouble.Wait):
            self.said |= {"seconds": verdict.seconds, "bucket": verdict.bucket}


class RecordedModel(WrapperModel):
    """A model whose answers are recorded, and streamed into the run's stream while they come."""

    def __init__(self, wrapped: Model, conversation: Conversation) -> None:
        """Wrap the model that serves this attempt."""
        super().__init__(wrapped)
        self.conversation = conversation

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the answer, of the journal or of the model."""
        return await ModelCall(self, messages, model_settings, model_request_parameters).answer()

    async def really(self, ctx: EffectContext, messages: list[ModelMessage], call: ModelCall) -> ModelResponse:
        """Ask the model now, and emit its words as they come."""
        who = self.conversation.declared.name
        speech = parts.Speech(ctx, who)
        settings = asked_once(self.wrapped, call.settings)
        with spans.chat(who, ctx.run_id, self.wrapped) as model:
            if not streams(model):
                response = await model.request(messages, settings, call.parameters)
                for part in response.parts:
                    speech.say(part.content if isinstance(part, TextPart) else "")
                return response
            async with model.request_stream(messages, settings, call.parameters) as stream:
                async for event in stream:
                    speech.say(text_of(event))
            return stream.get()


class ModelCall:
    """One call of a model, until there is an answer."""

    def __init__(
        self,
        model: RecordedModel,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> None:
        """Know what is to be asked."""
        self.settings = settings
        self.parameters = parameters
        self._model = model
        self._conversation = model.conversation
        self._messages = messages
        self._retried = 0
        self._cut = 0

    async def answer(self) -> ModelResponse:
        """Return the model's answer. Raises StepFailed if a person let it fail, BudgetExceeded, Interrupted."""
        conversation = self._conversation
        while True:
            place = conversation.next_attempt()
            await self._take_place()
            sent = conversation.window_of(self._messages)
            lost, held = await self._reserve(place, sent)
            if lost or self._let_fail(place):
                continue
            known = conversation.guest.has(CallKind.STEP, MODEL, place)
            try:
                recorded = await self._ask(place, sent, held)
            except StepFailed as failed:
                await self._wait_out(failed, place, sent, known=known)
            else:
                return conversation.answered(_response(recorded))

    def _let_fail(self, place: str) -> bool:
        """Whether a person let this attempt fail and the run was started again since: the next one asks anew."""
        guest = self._conversation.guest
        return guest.has(CallKind.ASK, "ask", place) and not guest.has(CallKind.STEP, MODEL, place)

    async def _ask(self, place: str, sent: list[ModelMessage], held: tuple[str, int] | None) -> Any:
        made = definition(MODEL, self._act(sent, held), Safety.REPEATABLE, paid=True)
        return await self._conversation.guest.call(lambda ctx: ctx.perform(made, {"args": []}, place))

    async def _take_place(self) -> None:
        """Wait for a place in the model's rate bucket, if the agent's author declared a limit."""
        most = self._conversation.declared.calls_per_minute
        if most is not None:
            await self._conversation.guest.call(lambda ctx: ctx.rate(self._bucket, limit=most, per=60, burst=most))

    @property
    def _bucket(self) -> str:
        return trouble.bucket_of(self._model.wrapped.model_name, self._model.wrapped.system)

    # money

    async def _reserve(self, place: str, sent: Sequence[ModelMessage]) -> tuple[bool, tuple[str, int] | None]:
        """Reserve what an attempt may cost. Returns whether it was made before and lost, and the hold with its amount."""
        conversation, guest = self._conversation, self._conversation.guest
        begun = guest.has(CallKind.BUDGET, "reserve", place)
        ended = guest.has(CallKind.STEP, MODEL, place)
        if ended and not begun:
            return False, None
        amount, why = 0, ""
        if not begun:
            if self._bucket in conversation.unpriced and conversation.asked_for_money:
                return False, None
            tokens = conversation.tokens
            known = prices.estimate_of(self._model.wrapped, sent, self.settings, self.parameters, tokens=tokens)
            if known is None:
                conversation.unpriced.add(self._bucket)
                self._say_unpriced()
                why = prices.unknown_wish(self._model.wrapped.model_name, self._model.wrapped.system)
            amount = known or 0
        conversation.asked_for_money = True
        wanted = max(1, amount)
        found = await guest.call(lambda ctx: ctx.reserve(wanted, place, why=why))
        return begun and not ended, (str(found["hold"]), int(found["micros"]))

    def _say_unpriced(self) -> None:
        """Say that nobody knows the price, once in this process: it is the model's, whichever run asks it."""
        model = self._model.wrapped
        if self._bucket not in _unpriced and not prices.costs_nothing(model):
            _unpriced.add(self._bucket)
            self._conversation.guest.log.info(prices.unknown(model.model_name, model.system))

    def _act(
        self, sent: list[ModelMessage], held: tuple[str, int] | None
    ) -> Callable[[EffectContext], Coroutine[Any, Any, dict[str, Any]]]:
        async def act(ctx: EffectContext) -> dict[str, Any]:
            try:
                self._respect_pause()
                response = await self._model.really(ctx, sent, self)
            except Exception as error:
                verdict = self._sorted(error, ctx.key)
                if held is not None:
                    ctx.settles.append((held[0], held[1] if verdict.bought and held[1] > 1 else 0))
                raise ModelTrouble(verdict) from error
            if held is not None:
                cost = prices.cost_of(response)
                ctx.settles.append((held[0], cost if cost is not None else held[1] if held[1] > 1 else 0))
            return stored(response)

        return act

    # trouble

    def _respect_pause(self) -> None:
        """Refuse to ask a provider that said "not now" to this process and whose time has not come."""
        left = _not_before.get(self._bucket, 0) - self._conversation.guest.now()
        if left > 0:
            raise _Paused(left / 1_000_000)

    def _sorted(self, error: Exception, key: str) -> trouble.Verdict:
        if isinstance(error, _Paused):
            return trouble.Wait(error.seconds, self._bucket, f"{self._bucket} asked to be left alone")
        verdict = trouble.sort(
            error,
            as_datetime(self._conversation.guest.now()),
            provider=self._model.wrapped.system,
            attempt=self._retried + 1,
            spread=zlib.crc32(key.encode()) / 2**32,
        )
        if isinstance(verdict, trouble.Wait):
            _not_before[verdict.bucket] = self._conversation.guest.now() + micros(verdict.seconds)
        return verdict

    async def _wait_out(self, failed: StepFailed, place: str, sent: Sequence[ModelMessage], *, known: bool) -> None:
        """Do what must be done before the next attempt. Raises the failure if there is to be none.

        `known`: an earlier stretch recorded the failure, and has logged it.
        """
        guest, said = self._conversation.guest, failed.said
        match said.get("verdict"):
            case "Retry" if self._retried < MOST_RETRIES:
                self._retried += 1
                self._log_failure(failed, known=known)
                await guest.call(lambda ctx: ctx.sleep(said["seconds"]))
            case "Wait":
                self._log_failure(failed, known=known)
                if self._conversation.declared.calls_per_minute is not None:
                    await guest.call(lambda ctx: ctx.rate_retry_after(said["bucket"], said["seconds"]))
                await guest.call(lambda ctx: ctx.sleep(said["seconds"]))
            case "TooLong" if self._cut < MOST_CUTS and self._shorter(sent):
                self._cut += 1
            case "Retry" | "TooLong" | "Attention":
                await self._ask_person(failed, place)
            case _:
                raise failed

    def _log_failure(self, failed: StepFailed, *, known: bool) -> None:
        """Log a failure once: a stretch that only reads of it in the journal has nothing new to tell."""
        if not known:
            self._conversation.guest.log.info("its model is asked again later", said=failed.detail)

    def _shorter(self, sent: Sequence[ModelMessage]) -> bool:
        """Halve the window; return whether that makes what is sent smaller."""
        before, window = weight(sent), self._conversation.window
        smaller = replace(window, most_tokens=max(_LEAST_WINDOW, min(window.most_tokens, before) // 2))
        self._conversation.window = smaller
        return weight(self._conversation.window_of(self._messages)) < before

    async def _ask_person(self, failed: StepFailed, place: str) -> None:
        """Let a person say whether to ask the model again."""
        hint = f" ({failed.hint})" if failed.hint else ""
        asks = f"{self._conversation.declared.name} cannot ask its model: "
        room = max(_LEAST_LETTERS, QUESTION_LETTERS - len(asks) - len(hint) - len(_AGAIN_ASKED))
        said = failed.detail.rstrip(".") if len(failed.detail) <= room else f"{failed.detail[: room - 3]}..."
        question = f"{asks}{said}{hint}{_AGAIN_ASKED}"
        answer = await self._conversation.guest.call(lambda ctx: ctx.choose(question, [_AGAIN, _FAIL], place))
        if answer.value != _AGAIN:
            raise failed
        self._retried = self._cut = 0


class _Paused(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"for {seconds:.1f} s")
        self.seconds = seconds


def _response(recorded: Any) -> ModelResponse:
    response = read(recorded)
    if not isinstance(response, ModelResponse):
        message = f"a model's answer was recorded as {type(response).__name__}"
        raise TypeError(message)
    return response


def asked_once(model: Model, settings: ModelSettings | None) -> ModelSettings | None:
    """Add to a call's settings that the provider's client does not try again by itself: each attempt is a step, on record.

    What the author says of it, `ModelSettings(max_retries=2)`, counts. A model that knows no such setting gets none.
    """
    said: ModelSettings = {**(model.settings or {}), **(settings or {})}
    if _RETRIES in said or any(_RETRIES in one.unsupported_settings for one in prices.models_of(model)):
        return settings
    return {**(settings or {}), "max_retries": 0}


def streams(model: Model) -> bool:
    """Whether a model can answer word by word."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    own = type(model).request_stream is not FunctionModel.request_stream
    return own or getattr(model, "stream_function", None) is not None


def text_of(event: Any) -> str:
    """Return what an event of a stream adds to the text that people read."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
