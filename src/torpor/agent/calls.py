"""A tool call of an agent: asked about if that is declared, made once as its safety allows, paired with one result."""

from __future__ import annotations

import contextvars
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_ai import Agent, ToolDenied, _utils
from pydantic_ai.exceptions import ToolFailed

from torpor.agent import inside, outcomes, parts, spans
from torpor.agent.delegate import ask_child, child_of
from torpor.agent.servers import called
from torpor.agent.tools import enter
from torpor.agent.waking import timed
from torpor.core.effect import Safety
from torpor.core.retry import RetryPolicy
from torpor.sdk.steps import Definition

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from contextlib import AbstractContextManager

    from pydantic_ai import AbstractToolset, RunContext, ToolsetTool

    from torpor.agent.conversation import Conversation
    from torpor.sdk.asking import Approval
    from torpor.sdk.steps import EffectContext


def definition(
    name: str,
    act: Callable[..., Coroutine[Any, Any, Any]],
    safety: Safety,
    timeout_seconds: float | None = None,
    *,
    paid: bool = False,
) -> Definition:
    """Return the definition of a call that is made on the way. It acts with the context variables of whoever asks for it."""
    return Definition(
        name,
        act,
        safety,
        RetryPolicy(),
        timeout_seconds,
        None,
        is_async=True,
        takes_context=True,
        within=contextvars.copy_context(),
        settled=outcomes.settled,
        paid=paid,
    )


class Call:
    """One tool call of a turn."""

    def __init__(
        self,
        conversation: Conversation,
        inner: AbstractToolset[Any],
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
    ) -> None:
        """Know what is to be called."""
        self._inner = inner
        self._conversation = conversation
        self._name = name
        self._args = tool_args
        self._shown = shown(tool_args)
        self._ctx = ctx
        self._tool = tool
        self._told = ""
        self._place = self._conversation.place_of(name, ctx.tool_call_id)
        self._at = ""
        """What the parts of the stream call it, once it is made."""
        self._said_begin = False
        """Whether the stream keeps that it began."""

    async def settle(self) -> Any:
        """Ask for consent if it is needed, and act once. Raises Interrupted, StepFailed."""
        conversation, approved = self._conversation, False
        if self._name in conversation.asking or conversation.declared.asks(
            self._name, self._shown, conversation.guest.run_id
        ):
            denied = await self._consent()
            if denied is not None:
                return denied
            approved = True
        outcome = await self._act(self._place, approved=approved)
        if outcomes.ASKS in outcome:  # the tool itself wants consent, now that it has seen what is asked of it
            why = outcome[outcomes.ASKS]
            denied = await self._consent(why if isinstance(why, str) else "")
            if denied is not None:
                return denied
            outcome = await self._act(f"{self._place} approved", approved=True)
        return outcomes.given(outcome, self._told)

    async def _consent(self, why: str = "") -> ToolDenied | None:
        """Ask a person about exactly these arguments; take over what they edited. Returns what the model is told if not.

        `why` is the tool's own reason, and a part of what they consent to.
        """
        title = f"{self._name}? {why}".rstrip()
        shows, schema = self._shown, self._tool.tool_def.parameters_json_schema
        decision, seconds = await self._conversation.guest.call(
            lambda context: timed(context, context.approval(title, show=shows, editable=True, schema=checkable(schema)))
        )
        self._conversation.waited(seconds, _decided(self._name, decision))
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
        """Run the tool once, as its safety allows; or the child that it stands for; or what is inside it, call by call."""
        conversation, name = self._conversation, self._name
        self._at = at = f"{conversation.turn}/{place}"
        child = child_of(self._tool.tool_def)
        if child is not None:
            await self._say_begin()
            outcome, seconds = await ask_child(conversation.guest, child, self._args, place)
            conversation.waited(seconds, f"{child} answered")
            await self._say_end(outcome)
            return outcome
        args, ctx = self._args, replace(self._ctx, tool_call_approved=approved or self._ctx.tool_call_approved)
        safety = conversation.declared.safety_of(name, self._tool.tool_def.metadata)
        make = partial(self._inner.call_tool, name, args, ctx, self._tool)
        again = safety is not Safety.ONCE
        call = partial(called, make, self._inner, self._tool.tool_def, conversation.declared.name, again=again)

        async def act(context: EffectContext, **_shown: Any) -> dict[str, Any]:
            enter(context)
            context.emit(parts.began(context, name, at, self._shown))
            with (
                threads(context),
                spans.tool(conversation.declared.name, context, name, ctx.tool_call_id, self._shown) as told,
            ):
                outcome = await inside.whole(conversation, name, place, safety, call)
                told(outcome)
            if (end := parts.ended(context, name, at, outcome)) is not None:
                context.emit(end)
            return outcome

        outcome = await self._record(definition(name, act, safety, conversation.declared.timeout_of(name)), place)
        if outcomes.SETTLED_BY in outcome:
            await self._say_end(outcome)
        self._said_begin = True
        if outcomes.OPENS not in outcome:
            return outcome
        found = await inside.opened(conversation, name, place, call)

        async def give(context: EffectContext, **_shown: Any) -> dict[str, Any]:
            if (end := parts.ended(context, name, at, found)) is not None:
                context.emit(end)
            return found

        return await self._record(definition(name, give, Safety.REPEATABLE), f"{place} done")

    # what the stream is told that no attempt could say

    async def failed(self, why: str) -> ToolFailed:
        """Tell who looks on that the call failed, if it was made, and return what the model is told."""
        if self._at:
            await self._say_end({"failed": why})
        return ToolFailed(why)

    async def _say_begin(self) -> None:
        if not self._said_begin:
            self._said_begin = True
            await self._say("began", parts.began(self._conversation.guest, self._name, self._at, self._shown))

    async def _say_end(self, outcome: dict[str, Any]) -> None:
        await self._say_begin()
        await self._say("ended", parts.ended(self._conversation.guest, self._name, self._at, outcome))

    async def _say(self, what: str, part: dict[str, Any] | None) -> None:
        await self._conversation.guest.call(lambda context: context.say(f"{self._at} {what}", part))

    async def _record(self, made: Definition, place: str) -> dict[str, Any]:
        values = {"args": [], "more": self._shown}
        recorded = await self._conversation.guest.call(lambda context: context.perform(made, values, place, ahead=True))
        return outcomes.read(recorded)


def threads(context: EffectContext) -> AbstractContextManager[None]:
    """Let a plain tool run in a thread of the worker, which then knows of it; not if the author chose other threads."""
    lent: Any = context.threads
    chosen = _utils._thread_executor.get() is not None  # noqa: SLF001 - pydantic-ai sets it and does not tell it
    return nullcontext() if chosen or lent is None else Agent.using_thread_executor(lent)


def shown(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as people see them and as they are recorded."""
    from pydantic_core import to_jsonable_python

    found: dict[str, Any] = to_jsonable_python(dict(args), fallback=repr)
    return found


def checkable(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return a tool's schema if torpor can check an edit against it; what it cannot, the tool's own validator will."""
    from torpor.core.schema import unchecked

    return schema if unchecked(schema) is None else None


def _decided(name: str, decision: Approval) -> str:
    if decision.expired:
        return f"nobody approved {name} in time"
    return f"{decision.by or 'a person'} {'approved' if decision else 'denied'} {name}"


def _refusal(name: str, decision: Approval) -> str:
    if decision.expired:
        return f"Nobody approved this call of {name} in time. It was not made."
    by = decision.by or "A person"
    return f"{by} denied this call of {name}{because(decision.note)}. It was not made."


def changes(name: str, before: Mapping[str, Any], after: Mapping[str, Any], by: str) -> str:
    """Return what a person changed, for the model."""
    fields = [field for field in {**before, **after} if before.get(field) != after.get(field)]
    said = "; ".join(f"{field} from {before.get(field)!r} to {after.get(field)!r}" for field in fields)
    return f"{by or 'A person'} changed {said or 'nothing'} before {name} ran. The result is of the changed call."


def because(reason: str) -> str:
    """Return a reason as it is put behind what happened."""
    return f": {reason}" if reason else ""
