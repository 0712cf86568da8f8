"""`@app.tool`: what is known about a tool, said where it is defined; and what a tool is told about the call it serves."""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from torpor.core.effect import Safety
from torpor.errors import UsageError
from torpor.sdk.steps import EffectContext, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import timedelta

F = TypeVar("F", bound="Callable[..., Any]")
Approve: TypeAlias = "bool | Callable[..., bool]"
"""Whether a call needs a person: always, never, or what a function of its arguments says."""

ToolContext = EffectContext
"""What a tool is told: `key` (equal in every attempt of one call), `attempt`, `deadline`, `secret(name)`, `emit(part)`."""
SAFETIES = (Safety.REPEATABLE, Safety.KEYED, Safety.ONCE)
_MARK = "__torpor_tool__"
_CURRENT: ContextVar[ToolContext] = ContextVar("torpor_tool_context")


@dataclass(frozen=True, slots=True)
class Tool:
    """What is declared about one tool."""

    safety: Safety = Safety.ONCE
    approve: Approve = False
    timeout_seconds: float | None = None


def safety_of(given: Safety | str, tool: str) -> Safety:
    """Return a declared safety. Raises UsageError for what is none, or what a tool cannot be."""
    known = next((safety for safety in SAFETIES if safety == given), None)
    if known is None:
        raise UsageError(f"tool {tool} cannot be {given!r}", hint=f"one of: {', '.join(SAFETIES)}")
    return known


def rule_of(given: object, tool: str) -> Approve:
    """Return who is asked about calls of a tool. Raises UsageError for what is no rule: a mistake here would ask nobody."""
    if isinstance(given, bool) or (callable(given) and not inspect.iscoroutinefunction(given)):
        return given
    kind = "an async function" if callable(given) else repr(given)
    raise UsageError(
        f"approve of tool {tool} is {kind}", hint="True, False, or a function: approve=lambda euros, **_: euros > 50"
    )


def tool_context() -> ToolContext:
    """Return what a tool that is running now is told about its call. Raises UsageError outside of one."""
    try:
        return _CURRENT.get()
    except LookupError:
        message = "no tool of a durable agent is running here"
        raise UsageError(message, hint="call it inside a tool that torpor runs") from None


def enter(context: ToolContext) -> None:
    """Let `tool_context()` find a call, in the task that serves it."""
    _CURRENT.set(context)


def declare(
    function: F,
    *,
    safety: Safety | str,
    approve: Approve,
    timeout: float | timedelta | None,
) -> F:
    """Remember what is declared about a tool's function; a first parameter that is a ToolContext is filled in."""
    name = getattr(function, "__name__", repr(function))
    given: object = function
    if not callable(given):
        raise UsageError(
            f"app.tool was given {name}, which is no function", hint='@app.tool(safety="keyed") above a def'
        )
    tool = Tool(safety_of(safety, name), rule_of(approve, name), seconds_of(timeout, f"timeout of tool {name}"))
    if tool.timeout_seconds == 0:
        raise UsageError(f"timeout of tool {name} is 0, so no call of it ever ends", hint="seconds; None for no limit")
    made: Any = _told(function) if _wants_context(function) else function
    setattr(made, _MARK, tool)
    return cast("F", made)  # it is called as the function was


def checked_agent(agent: object, name: str, *, taken: Collection[str]) -> None:
    """Raise UsageError for what is no agent, or a name that is none or taken."""
    given: object = name
    if not isinstance(given, str):
        raise UsageError(f"an agent's name is {given!r}", hint='its name comes first: app.agent("support", agent)')
    if isinstance(agent, type) or not hasattr(agent, "iter") or not hasattr(agent, "toolsets"):
        raise UsageError(f"agent {name} is {agent!r}", hint="app.agent takes a pydantic_ai.Agent")
    if name in taken:
        raise UsageError(
            f'two programs are named "{name}"', hint='another name for one of them: app.agent("...", agent)'
        )


def declared_of(tools: Mapping[str, Any]) -> dict[str, Tool]:
    """Return what functions of an agent's tools were declared with, by the tools' names.

    Tools as an agent has them, or as a toolset offers them to a model, under whatever name and in whatever wrapper.
    """
    found = {}
    for name, tool in tools.items():
        known = getattr(_function_of(tool), _MARK, None)
        if isinstance(known, Tool):
            found[name] = known
    return found


def _function_of(tool: Any) -> object:
    while (source := getattr(tool, "source_tool", None)) is not None:  # as a combined toolset wraps it
        tool = source
    offered = getattr(getattr(tool, "call_func", None), "__self__", None)
    return getattr(tool, "function", None) or getattr(offered, "function", None)


def _wants_context(function: Callable[..., Any]) -> bool:
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.annotation in {ToolContext, "ToolContext", "torpor.ToolContext"}


def _told(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function without its first parameter, which is the call's context."""
    signature = inspect.signature(function)
    first, *rest = signature.parameters.values()

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def told(*args: Any, **more: Any) -> Any:
            return await function(tool_context(), *args, **more)

    else:

        @functools.wraps(function)
        def told(*args: Any, **more: Any) -> Any:
            return function(tool_context(), *args, **more)

    del told.__wrapped__  # whoever reads the signature must not find the first parameter
    told.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # what inspect reads
    told.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if name != first.name}
    return told
