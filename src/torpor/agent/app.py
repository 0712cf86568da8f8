"""`App` with agents: what an author sees as `torpor.App`. Nothing of pydantic-ai is loaded before an agent is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from torpor.core.checkpoint import KEEP_CHECKPOINTS
from torpor.errors import UsageError
from torpor.sdk import app as sdk

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from datetime import timedelta

    from pydantic_ai import Agent

    from torpor.agent.declared import Approve
    from torpor.agent.limits import Budget
    from torpor.core.effect import Safety
    from torpor.sdk.context import Context

F = TypeVar("F", bound="Callable[..., Any]")
OutputT = TypeVar("OutputT")


class App(sdk.App):
    """Your programs. `@app.flow`, `@app.step`, `@app.effect`, `app.agent`; give it to `torpor dev FILE.py` or `torpor.run`."""

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        /,
        *,
        safety: Safety | str = ...,
        approve: Approve = ...,
        timeout: float | timedelta | None = ...,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: Any = None,
        /,
        *,
        safety: Safety | str = "once",
        approve: Approve = False,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Declare a tool where it is defined, then give it to your agent: `Agent(..., tools=[refund])`.

        `safety`: `repeatable`, `keyed` or `once`. `approve`: whether a call needs a person, True or a function of the
        arguments. `timeout` in seconds or as a timedelta. A first parameter annotated `ToolContext` is filled in, and the
        model does not see it. Raises UsageError.
        """
        from torpor.agent.tools import declare

        def declared(function: Any) -> Any:
            return declare(function, safety=safety, approve=approve, timeout=timeout)

        return declared if function is None else declared(function)

    def agent(  # noqa: PLR0913 - each says one thing about the agent, and all but two have a default
        self,
        name: str,
        agent: Agent[Any, OutputT],
        *,
        safety: Mapping[str, Safety | str] | None = None,
        approve: Mapping[str, Approve] | None = None,
        deps: Any = None,
        conversation: bool = False,
        budget: Budget | None = None,
        window: int | None = None,
        watchdog: int | None = 5,
        calls_per_minute: int | None = None,
        trust_hints: bool = False,
        version: int = 1,
        keep_checkpoints: int = KEEP_CHECKPOINTS,
    ) -> Callable[[Context, Any], Coroutine[Any, Any, OutputT]]:
        """Make a pydantic-ai agent durable, under a name; return the program: `await torpor.run(app, support, "hello")`.

        A run's input is the prompt, its result the agent's output. `safety` says of each tool by name what a crash between its
        intent and its outcome may do to it: `repeatable`, `keyed`, `once` (the default). `approve` says which calls need a
        person: True, or a function of the arguments. `deps` are the agent's dependencies, or a function, async too, that makes
        them in the worker. A `conversation` does not end with an answer: it waits for the signal `message`, whose value is
        the next prompt.

        `budget` is what a run may use before a person is asked. `window` is how many tokens of messages a model call sends at
        most; without it, 70 % of what the model is known to take. After `watchdog` equal turns a person is asked whether it
        should go on; None: never. `calls_per_minute` bounds how often all runs and workers ask this model.

        With `trust_hints` an MCP server's word counts for tools that nothing is declared of: `readOnlyHint` makes one
        repeatable, `idempotentHint` keyed; whether a person is asked it never decides. Raises UsageError.
        """
        from torpor.agent.declared import Declared
        from torpor.agent.driver import program
        from torpor.agent.limits import Budget
        from torpor.agent.tools import declared_of, safety_of
        from torpor.agent.watchdog import Watchdog
        from torpor.agent.window import Window

        given: object = agent
        if not hasattr(given, "iter") or not hasattr(given, "toolsets"):
            raise UsageError(f"agent {name} is {agent!r}", hint="app.agent takes a pydantic_ai.Agent")
        tools = {tool: one for toolset in agent.toolsets for tool, one in getattr(toolset, "tools", {}).items()}
        said = {tool: safety_of(kind, tool) for tool, kind in (safety or {}).items()}
        declared = Declared(
            name,
            agent,
            said,
            dict(approve or {}),
            deps,
            declared_of(tools),
            conversation,
            budget or Budget(),
            None if window is None else Window(window),
            None if watchdog is None else Watchdog(watchdog),
            calls_per_minute,
            trust_hints,
        )
        turn = program(declared)
        self.flow(name=name, version=version, keep_checkpoints=keep_checkpoints)(turn)
        undeclared = sorted(set(tools) - set(said) - set(declared.tools))
        if undeclared:
            self.flows[name].warns = f"tools that nothing is declared of count as `once`: {', '.join(undeclared)}"
        return turn
