"""`App` with agents: what an author sees as `torpor.App`. Nothing of pydantic-ai is loaded before an agent is registered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from torpor.core.checkpoint import KEEP_CHECKPOINTS
from torpor.sdk import app as sdk

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from datetime import timedelta
    from decimal import Decimal

    from pydantic_ai import Agent, Tool
    from pydantic_ai.capabilities import AbstractCapability

    from torpor.agent.limits import Budget
    from torpor.agent.tools import Approve
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

    def delegate(
        self,
        program: Callable[..., Any] | str,
        *,
        name: str = "",
        description: str = "",
        approve: Approve = False,
    ) -> Tool[Any]:
        """Return a tool that asks another agent of yours: `Agent(..., tools=[app.delegate(researcher)])`.

        Each call is a child run: its input is the tool's one argument, `prompt`, its output the tool's result. It is
        started once, asks people for itself, ends with the run that asks and spends from its budget. `program` is what
        `app.agent` or `@app.flow` made, or a name. Without torpor the tool runs the agent as it is. Raises UsageError.
        """
        from torpor.agent.delegate import delegate

        return delegate(program, name=name, description=description, approve=approve)

    def nested(
        self, *, safety: Mapping[str, Safety | str] | None = None, approve: Mapping[str, Approve] | None = None
    ) -> AbstractCapability[Any]:
        """Return a capability for an agent that others ask inside a tool: `Agent(..., capabilities=[app.nested()])`.

        In a `repeatable` tool of a durable agent that awaits `other.run(...)` the other's model and tool calls are recorded
        one by one, and its tools may need a person, as `safety` and `approve` say. Anywhere else it changes nothing.
        Raises UsageError.
        """
        from torpor.agent.declared import rules, safeties
        from torpor.agent.nested import Nested

        return Nested(safety=safeties(safety, "(nested)"), approve=rules(approve, "(nested)"))

    def agent(  # noqa: PLR0913 - each says one thing about the agent, and all but two have a default
        self,
        name: str,
        agent: Agent[Any, OutputT],
        *,
        safety: Mapping[str, Safety | str] | None = None,
        approve: Mapping[str, Approve] | None = None,
        deps: Any = None,
        conversation: bool = False,
        budget: Budget | Decimal | str | int | None = None,
        window: int | None = None,
        watchdog: int | None = 5,
        calls_per_minute: int | None = None,
        trust_hints: bool = False,
        planner: Any = None,
        workers: Iterable[Callable[..., Any] | str] = (),
        replan: bool = False,
        reentry: bool = False,
        version: int = 1,
        keep_checkpoints: int = KEEP_CHECKPOINTS,
    ) -> Callable[[Context, Any], Coroutine[Any, Any, OutputT]]:
        """Make a pydantic-ai agent durable, under a name; return the program: `await torpor.run(app, support, "hello")`.

        A run's input is the prompt, its result the agent's output. `safety` says of each tool by name what a crash between its
        intent and its outcome may do to it: `repeatable`, `keyed`, `once` (the default). `approve` says which calls need a
        person: True, or a function of the arguments. `deps` are the agent's dependencies, or a function, async too, that makes
        them in the worker. A `conversation` does not end with an answer: it waits for the signal `message`, whose value is
        the next prompt.

        `budget` is what a run may use before a person is asked; `"0.50"` are dollars. `window` is how many tokens of messages
        a model call sends at most; without it, 70 % of what the model is known to take. After `watchdog` equal turns a person
        is asked whether it should go on; None: never. `calls_per_minute` bounds how often all runs and workers ask this model.

        With `trust_hints` an MCP server's word counts for tools that nothing is declared of: `readOnlyHint` makes one
        repeatable, `idempotentHint` keyed; whether a person is asked it never decides.

        A `planner`, an agent with `output_type=torpor.Plan` or a function of the goal, makes a plan before the agent begins;
        with `replan`, or if the function takes the plan so far as well, it is asked again after each milestone. A milestone
        may name one of the `workers`, programs that do it as a child run. With `reentry` the model is told when the run slept
        for an hour or more: how long, and what woke it. Raises UsageError.
        """
        from torpor.agent.declared import Declared, limits_of, rules, safeties, switches_of
        from torpor.agent.driver import program
        from torpor.agent.hearing import MESSAGE
        from torpor.agent.planners import planning_of
        from torpor.agent.spans import invocation
        from torpor.agent.tools import checked_agent

        checked_agent(agent, name, taken=self.flows)
        switches_of(name, replan=replan)
        declared = Declared(
            name,
            agent,
            safeties(safety, name),
            rules(approve, name),
            deps,
            **switches_of(name, conversation=conversation, trust_hints=trust_hints, reentry=reentry),
            **limits_of(name, budget, window, watchdog, calls_per_minute),
            planning=planning_of(
                name, planner, workers, self.flows, replan=replan, conversation=conversation, register=self.agent
            ),
        )
        turn = program(declared)
        self.flow(name=name, version=version, keep_checkpoints=keep_checkpoints)(turn)
        flow = self.flows[name]
        flow.told_in_rows, flow.source = True, sdk.agent_source(name)
        flow.warns, flow.hears, flow.traces = declared.warning, MESSAGE, partial(invocation, name)
        return turn
