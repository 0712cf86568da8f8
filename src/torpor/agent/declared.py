"""What an author declares about an agent: how safe its tools are to do again, which need a person, where its deps come from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torpor.agent import prices
from torpor.agent.limits import MOST_CALLS, Budget, budget_of, whole_of
from torpor.agent.tools import Approve, Tool, declared_of, rule_of, safety_of
from torpor.agent.watchdog import Watchdog
from torpor.agent.window import Window
from torpor.core.effect import Safety
from torpor.errors import UsageError

if TYPE_CHECKING:
    from pydantic_ai import Agent


AGENT = "__torpor_agent__"
"""Where a program made of an agent keeps what was declared about it."""

UNKNOWN_WINDOW = 100_000
"""How many tokens are sent at most to a model of which nobody knows what it takes."""


def hinted(metadata: Mapping[str, Any] | None) -> Safety | None:
    """Return what an MCP server's hints make of a tool: one that only reads is repeatable, an idempotent one keyed."""
    hints = (metadata or {}).get("annotations")
    if not isinstance(hints, Mapping):
        return None
    if hints.get("readOnlyHint") is True:
        return Safety.REPEATABLE
    return Safety.KEYED if hints.get("idempotentHint") is True else None


def limits_of(agent: str, budget: object, window: object, watchdog: object, calls_per_minute: object) -> dict[str, Any]:
    """Return what bounds an agent, as an author says it in numbers, by the names of `Declared`. Raises UsageError."""
    tokens = whole_of(
        window, f"window of agent {agent}", "window=20_000 for as many tokens; None: what the model takes"
    )
    turns = whole_of(watchdog, f"watchdog of agent {agent}", "watchdog=5 for as many equal turns; None never looks")
    rate = whole_of(
        calls_per_minute,
        f"calls_per_minute of agent {agent}",
        "calls_per_minute=60; None for no limit",
        most=MOST_CALLS,
    )
    return {
        "budget": budget_of(budget, agent),
        "window": None if tokens is None else Window(tokens),
        "watchdog": None if turns is None else Watchdog(turns),
        "calls_per_minute": rate,
    }


def switches_of(agent: str, **given: object) -> dict[str, Any]:
    """Return what is either so or not, by the names of `app.agent`. Raises UsageError for what is neither True nor False."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise UsageError(f"{name} of agent {agent} is {value!r}", hint=f"{name}=True or {name}=False")
    return given


@dataclass(frozen=True, slots=True)
class Planning:
    """Who makes an agent's plans, and who may do what is in them."""

    program: str = ""
    function: Callable[..., Any] | None = None
    workers: Mapping[str, str] = field(default_factory=dict)
    """What each can do, by name."""
    revises: bool = False
    """Whether the planner is asked again after each milestone."""


@dataclass(frozen=True, slots=True)
class Declared:
    """An agent as `app.agent` registered it."""

    name: str
    agent: Agent[Any, Any]
    safety: Mapping[str, Safety] = field(default_factory=dict)
    approve: Mapping[str, Approve] = field(default_factory=dict)
    deps: Any = None
    tools: dict[str, Tool] = field(default_factory=dict)
    """Those of `app.tool`, by name, as far as they are known: which an agent has is known when a model is to be asked."""
    conversation: bool = False
    budget: Budget = field(default_factory=Budget)
    window: Window | None = None
    """What is sent at most; None: a share of what the model takes."""
    watchdog: Watchdog | None = None
    calls_per_minute: int | None = None
    trust_hints: bool = False
    planning: Planning | None = None
    reentry: bool = False
    """Whether the model is told how long the run slept and what woke it."""
    named: set[str] = field(default_factory=set, compare=False)
    """Tools of MCP servers that were named in the log, because nothing is declared of them."""

    def window_for(self, model: Any) -> Window:
        """Return what is sent at most to a model: as declared, else a share of what it is known to take."""
        known = None if self.window is not None or model is None else prices.most_input(model)
        return self.window or Window(known or UNKNOWN_WINDOW)

    def fresh(self, run: str) -> Declared:
        """Return it for one stay of a run, which `learn`s what its tools were declared with.

        Raises UsageError if something is declared of a tool that the agent surely does not have: one more letter in
        `approve`, and nobody would be asked.
        """
        if strange := self._strange():
            raise UsageError(
                f"{self.name} has no tool {strange[0]}, and something is declared of it",
                hint=f"its tools: {', '.join(sorted(self._plain()))}; "
                f"mend safety= or approve=, then torpor retry {run}",
            )
        return replace(self, tools={})

    def learn(self, tools: Mapping[str, Any]) -> None:
        """Know what tools that are offered to a model were declared with."""
        self.tools.update(declared_of(tools))

    def warning(self) -> str:
        """Return what a worker says when it begins to serve the agent; empty if nothing."""
        tools = self._plain()
        undeclared = sorted(set(tools) - set(self.safety) - set(declared_of(tools)))
        said = []
        if undeclared:
            count = "counts" if len(undeclared) == 1 else "count"
            write = f'safety={{"{undeclared[0]}": "repeatable"}}'
            said.append(f"{', '.join(undeclared)} {count} as `once`; to change: {write}")
        if strange := self._strange():
            said.append(f"something is declared of tools that it does not have: {', '.join(strange)}")
        return "; ".join(said)

    def _plain(self) -> dict[str, Any]:
        """Return the tools that are known before a toolset is asked."""
        return {name: tool for toolset in self.agent.toolsets for name, tool in _tools_of(toolset).items()}

    def _strange(self) -> list[str]:
        """Return what is declared of tools that the agent does not have; nothing if a toolset must be asked for that."""
        if any(not isinstance(getattr(toolset, "tools", None), Mapping) for toolset in self.agent.toolsets):
            return []
        return sorted({*self.safety, *self.approve} - set(self._plain()))

    def safety_of(self, tool: str, metadata: Mapping[str, Any] | None = None) -> Safety:
        """Return what may be done with a call whose outcome is not known; `once` unless something is declared.

        `metadata` is the tool's, as pydantic-ai has it: with `trust_hints` what its MCP server says of it is believed, where
        the author has said nothing.
        """
        known = self.tools.get(tool)
        said = self.safety.get(tool, known.safety if known is not None else None)
        if said is None and self.trust_hints:
            said = hinted(metadata)
        return Safety.ONCE if said is None else said

    def asks(self, tool: str, args: Mapping[str, Any], run: str) -> bool:
        """Whether a call of a run needs consent, as the author declared it.

        Raises UsageError if their function raises, or returns neither True nor False: a forgotten `return` is no consent.
        """
        known = self.tools.get(tool)
        rule = self.approve.get(tool, known.approve if known is not None else False)
        if not callable(rule):
            return bool(rule)
        try:
            said: object = rule(**args)
        except Exception as error:
            raise UsageError(
                f"the approve function of {tool} raised {type(error).__name__}: {error}",
                hint="it gets the call's arguments by name: lambda euros, **_: euros > 50; "
                f"mend it, then torpor retry {run}",
            ) from error
        if isinstance(said, bool):
            return said
        if inspect.iscoroutine(said):
            said.close()
        raise UsageError(
            f"the approve function of {tool} returned {said!r}, neither True nor False: nothing was called",
            hint=f"let it return whether a person is asked: return euros > 50; mend it, then torpor retry {run}",
        )

    def timeout_of(self, tool: str) -> float | None:
        """Return after how many seconds a call is given up, or None."""
        known = self.tools.get(tool)
        return known.timeout_seconds if known is not None else None

    async def make_deps(self, run: str = "") -> Any:
        """Return the agent's dependencies, anew for each stretch of a run if a factory makes them. Raises what that raises."""
        try:
            made = self.deps() if callable(self.deps) else self.deps
            return await made if inspect.isawaitable(made) else made
        except Exception as error:
            error.add_note(f"the deps of {self.name} raised it{f': mend that, then torpor retry {run}' if run else ''}")
            raise


def _tools_of(toolset: object) -> Mapping[str, Any]:
    tools = getattr(toolset, "tools", {})
    return tools if isinstance(tools, Mapping) else {}


def safeties(given: object, agent: str) -> dict[str, Safety]:
    """Return `safety=` of an agent, checked. Raises UsageError."""
    return {tool: safety_of(kind, tool) for tool, kind in _by_tool(given, "safety", agent).items()}


def rules(given: object, agent: str) -> dict[str, Approve]:
    """Return `approve=` of an agent, checked. Raises UsageError."""
    return {tool: rule_of(rule, tool) for tool, rule in _by_tool(given, "approve", agent).items()}


def _by_tool(given: object, what: str, agent: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        example = '{"refund": "once"}' if what == "safety" else '{"refund": True}'
        raise UsageError(f"{what} of agent {agent} is {given!r}", hint=f"by the names of its tools: {what}={example}")
    for tool in given:
        if not isinstance(tool, str) or not tool:
            raise UsageError(f"{what} of agent {agent} names a tool {tool!r}", hint="a tool is named by a text")
    return given
