"""The capability that makes a pydantic-ai agent durable: its model calls and tool calls go through the journal.

It stands innermost: everything an author's own capabilities do happens around it, and what is recorded is what the model
really answered and what the tool really gave back.

* **A model call** is a step, `model`. Only the answer is recorded; what was sent is in the messages.
* **A tool call** is an effect (a step, if it is declared repeatable) named after the tool, known by its position in the model's
  answer, never by the provider's id, which may repeat or be empty. Its arguments in the journal are those that ran.
* **Consent** is asked of a person before the effect begins, about exactly these arguments (G10). Edited ones are what runs,
  and the model is told so.
* Whatever happens to a call, the model gets exactly one result for it: that of the tool, or a sentence that says what is known.
"""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_ai import ModelResponse, TextPart, TextPartDelta, ToolDenied, WrapperToolset
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, ToolCallPart
from pydantic_ai.models.wrapper import WrapperModel

from torpor.agent import outcomes
from torpor.agent.tools import enter
from torpor.agent.transcript import named, read, stored
from torpor.core.effect import Safety
from torpor.core.retry import RetryPolicy
from torpor.errors import Interrupted, StepFailed
from torpor.sdk.steps import Definition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pydantic_ai import AbstractToolset, RunContext, ToolsetTool
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from torpor.agent.declared import Declared
    from torpor.sdk.asking import Approval
    from torpor.sdk.guest import Guest
    from torpor.sdk.steps import EffectContext

MODEL = "model"


def definition(
    name: str, act: Callable[..., Awaitable[Any]], safety: Safety, timeout_seconds: float | None = None
) -> Definition:
    """Return the definition of a call that is made on the way. It acts with the context variables of whoever asks for it."""
    here = contextvars.copy_context()

    async def within(ctx: EffectContext, **args: Any) -> Any:
        return await asyncio.get_running_loop().create_task(_coroutine(act(ctx, **args)), context=here)

    return Definition(name, within, safety, RetryPolicy(), timeout_seconds, None, is_async=True, takes_context=True)


async def _coroutine(awaited: Awaitable[Any]) -> Any:
    return await awaited


@dataclass
class Durable(AbstractCapability[Any]):
    """The way of an agent's loop into the journal, by the guest of the turn that is on."""

    declared: Declared
    taken: set[str] = field(default_factory=set)
    """Ids of tool calls that the conversation has already."""
    positions: dict[str, int] = field(default_factory=dict)
    """Where each tool call stands in the answer of this turn, by its id."""
    asking: set[str] = field(default_factory=set)
    """Tools whose author says, in pydantic-ai's own words, that a person must consent."""
    interrupted: bool = False
    """Whether a person interrupted a tool of this turn: the model goes on when somebody has said what now."""
    guest: Guest = field(init=False)
    turn: int = field(init=False, default=0)

    def enter(self, guest: Guest, turn: int) -> None:
        """Begin a turn."""
        self.guest, self.turn, self.interrupted = guest, turn, False

    def get_ordering(self) -> CapabilityOrdering:
        """Stand innermost."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_model(self, model: Model) -> Model:
        """Record what the model answers."""
        return RecordedModel(model, self)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Record what tools give back."""
        return RecordedToolset(toolset, self)

    async def answer(self, ask: Callable[[EffectContext], Awaitable[ModelResponse]]) -> ModelResponse:
        """Return the model's answer: from the journal, or asked for now and recorded."""

        async def act(ctx: EffectContext) -> Any:
            return stored(await ask(ctx))

        made = definition(MODEL, act, Safety.REPEATABLE)
        recorded = await self.guest.call(lambda context: context.perform(made, {"args": []}, ""))
        response = read(recorded)
        if not isinstance(response, ModelResponse):
            message = f"a model's answer was recorded as {type(response).__name__}"
            raise TypeError(message)
        response = named(response, self.turn, self.taken)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        self.positions = {call.tool_call_id: n for n, call in enumerate(calls)}
        return response


class RecordedModel(WrapperModel):
    """A model whose answers are recorded, and streamed into the run's stream while they come."""

    def __init__(self, wrapped: Model, durable: Durable) -> None:
        """Wrap the model that serves this attempt."""
        super().__init__(wrapped)
        self._durable = durable

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the answer, of the journal or of the model."""

        async def ask(ctx: EffectContext) -> ModelResponse:
            if not streams(self.wrapped):
                response = await self.wrapped.request(messages, model_settings, model_request_parameters)
                for part in response.parts:
                    if isinstance(part, TextPart) and part.content:
                        ctx.emit(part.content)
                return response
            async with self.wrapped.request_stream(messages, model_settings, model_request_parameters) as stream:
                async for event in stream:
                    if text := text_of(event):
                        ctx.emit(text)
            return stream.get()

        return await self._durable.answer(ask)


def streams(model: Model) -> bool:
    """Whether a model can answer word by word."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return getattr(model, "stream_function", True) is not None


def text_of(event: Any) -> str:
    """Return what an event of a stream adds to the text that people read."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


@dataclass
class RecordedToolset(WrapperToolset[Any]):
    """An agent's tools, each call of which is asked about, recorded, and paired with one result."""

    durable: Durable

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools; those that wait for consent are called like others, and ask then."""
        tools = await self.wrapped.get_tools(ctx)
        asking = {name: tool for name, tool in tools.items() if tool.tool_def.kind == "unapproved"}
        self.durable.asking.update(asking)
        plain = {name: replace(tool, tool_def=replace(tool.tool_def, kind="function")) for name, tool in asking.items()}
        return {**tools, **plain}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Return what the tool gave back, of the journal or now."""
        call = Call(self, name, tool_args, ctx, tool)
        try:
            return await call.settle()
        except Interrupted as interrupted:
            self.durable.interrupted = True
            raise ToolFailed(f"A person interrupted this call{_because(interrupted.reason)}.") from None
        except StepFailed as failed:
            raise ToolFailed(f"{name} failed: {failed.kind}: {failed.detail}") from None


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


class Call:
    """One tool call of a turn."""

    def __init__(
        self,
        toolset: RecordedToolset,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
    ) -> None:
        """Know what is to be called."""
        self._inner = toolset.wrapped
        self._durable = toolset.durable
        self._name = name
        self._args = tool_args
        self._shown = shown(tool_args)
        self._ctx = ctx
        self._tool = tool
        self._told = ""
        position = self._durable.positions.get(ctx.tool_call_id or "")
        self._place = str(position) if position is not None else f"id {ctx.tool_call_id}"

    async def settle(self) -> Any:
        """Ask for consent if it is needed, and act once. Raises Interrupted, StepFailed."""
        durable, approved = self._durable, False
        if self._name in durable.asking or durable.declared.asks(self._name, self._shown):
            denied = await self._consent()
            if denied is not None:
                return denied
            approved = True
        outcome = await self._act(self._place, approved=approved)
        if outcomes.ASKS in outcome:  # the tool itself wants consent, now that it has seen what is asked of it
            denied = await self._consent()
            if denied is not None:
                return denied
            outcome = await self._act(f"{self._place} approved", approved=True)
        return outcomes.given(outcome, self._told)

    async def _consent(self) -> ToolDenied | None:
        """Ask a person about exactly these arguments; take over what they edited. Returns what the model is told if not."""
        title, shows, schema = f"{self._name}?", self._shown, self._tool.tool_def.parameters_json_schema
        decision: Approval = await self._durable.guest.call(
            lambda context: context.approval(title, show=shows, editable=True, schema=checkable(schema))
        )
        if not decision:
            return ToolDenied(_refusal(self._name, decision))
        if decision.edited:
            self._edit(decision)
        return None

    def _edit(self, decision: Approval) -> None:
        try:
            self._args = self._tool.args_validator.validate_python(decision.value)
        except ValidationError as error:
            raise ToolFailed(
                f"{decision.by} changed the arguments of {self._name} to what it does not take: {error}"
            ) from error
        self._told = changes(self._name, self._shown, decision.value, decision.by)
        self._shown = dict(decision.value)

    async def _act(self, place: str, *, approved: bool) -> dict[str, Any]:
        """Run the tool once, as its safety allows."""
        args, ctx = self._args, replace(self._ctx, tool_call_approved=approved or self._ctx.tool_call_approved)

        async def act(call: EffectContext, **_shown: Any) -> dict[str, Any]:
            enter(call)
            return await outcomes.kept(self._inner.call_tool(self._name, args, ctx, self._tool))

        declared = self._durable.declared
        made = definition(self._name, act, declared.safety_of(self._name), declared.timeout_of(self._name))
        values = {"args": [], "more": self._shown}
        outcome: dict[str, Any] = await self._durable.guest.call(lambda context: context.perform(made, values, place))
        return outcome


def shown(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as people see them and as they are recorded."""
    from pydantic_core import to_jsonable_python

    found: dict[str, Any] = to_jsonable_python(dict(args), fallback=repr)
    return found


def checkable(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return a tool's schema if torpor can check an edit against it; what it cannot, the tool's own validator will."""
    from torpor.core.schema import unchecked

    return schema if unchecked(schema) is None else None


def _refusal(name: str, decision: Approval) -> str:
    if decision.expired:
        return f"Nobody approved this call of {name} in time. It was not made."
    by = decision.by or "A person"
    return f"{by} denied this call of {name}{_because(decision.note)}. It was not made."


def changes(name: str, before: Mapping[str, Any], after: Mapping[str, Any], by: str) -> str:
    """Return what a person changed, for the model."""
    fields = [field for field in {**before, **after} if before.get(field) != after.get(field)]
    said = "; ".join(f"{field} from {before.get(field)!r} to {after.get(field)!r}" for field in fields)
    return f"{by or 'A person'} changed {said or 'nothing'} before {name} ran. The result is of the changed call."
