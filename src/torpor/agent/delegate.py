"""`app.delegate`: another agent, or any other program, as a tool, each call of which is a child run.

The tool's argument is the child's input, its result the child's output. The child has a journal and approvals of its own,
ends with its parent, and spends from its parent's budget; the parent sleeps while it works. Its start and its end stand in
the parent's journal under the call's place in the model's answer, so that no crash starts a second one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic_ai import Tool

from torpor.agent.declared import AGENT, Declared
from torpor.agent.tools import declare
from torpor.agent.waking import timed
from torpor.core.effect import Safety
from torpor.core.names import check_name
from torpor.errors import UsageError
from torpor.sdk.children import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic_ai.tools import ToolDefinition

    from torpor.agent.tools import Approve
    from torpor.errors import ChildFailed
    from torpor.sdk.guest import Guest

_CHILD = "torpor.child"
"""The metadata of a tool that name the program it starts."""


def delegate(program: Callable[..., Any] | str, *, name: str, description: str, approve: Approve) -> Tool[Any]:
    """Return a tool that runs a program as a child. Raises UsageError for what is no program, or never ends."""
    child, declared = startable(program)
    for what, given in (("name", name), ("description", description)):
        said: object = given
        if not isinstance(said, str):
            raise UsageError(f"{what} of the tool that asks {child} is {said!r}", hint=f'{what}="...", a text')
    if name and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise UsageError(f"a tool cannot be named {name!r}", hint="providers take up to 64 letters, digits, - and _")

    async def ask(prompt: str) -> Any:
        if declared is None:
            message = f"{child} is a program of torpor, and this agent runs without it"
            raise UsageError(message, hint="start the agent as a run: await torpor.run(app, ...)")
        result = await declared.agent.run(prompt, deps=await declared.make_deps())
        return result.output

    ask.__name__ = ask.__qualname__ = name or _called(child)
    function = declare(ask, safety=Safety.REPEATABLE, approve=approve, timeout=None)
    described = description or description_of(declared) or f"Ask {child}."
    return Tool(function, name=ask.__name__, description=described, metadata={_CHILD: child})


def startable(program: Callable[..., Any] | str) -> tuple[str, Declared | None]:
    """Return the name of a program that may be a child, and what is declared of it if it is an agent. Raises UsageError."""
    child = program_of(program)
    check_name(child, "a program's name")
    declared = getattr(program, AGENT, None)
    if not isinstance(declared, Declared):
        return child, None
    if declared.conversation:
        message = f"{child} is a conversation: it does not end with an answer, so nobody could wait for it"
        raise UsageError(message, hint=f'app.agent("{child}", ...) without conversation=True')
    return child, declared


def description_of(declared: Declared | None) -> str:
    """Return what an agent says of itself, or nothing."""
    description = declared.agent.description if declared is not None else None
    return str(description) if description else ""


def child_of(tool: ToolDefinition) -> str | None:
    """Return the program that calls of a tool start as a child, or None for a tool that does its work itself."""
    child = (tool.metadata or {}).get(_CHILD)
    return child if isinstance(child, str) else None


async def ask_child(guest: Guest, child: str, args: Mapping[str, Any], place: str) -> tuple[dict[str, Any], float]:
    """Start a child for the call at a place; return its output and the seconds it took. Raises ChildFailed, Interrupted."""
    output, seconds = await guest.call(
        lambda context: timed(context, context.child(child, args.get("prompt"), step_id=place))
    )
    return {"value": output}, seconds


def failure(child: str, failed: ChildFailed) -> str:
    """Return what the model is told of a child that failed."""
    said = "was cancelled" if failed.kind == "Cancelled" else f"failed: {failed.kind}: {failed.detail}"
    return f"{child} {said}"


def _called(program: str) -> str:
    """Return what a tool for a program is called: providers take letters, digits, - and _."""
    return program.replace(".", "_")
