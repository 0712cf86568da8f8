"""What an author declares about an agent: how safe its tools are to do again, which need a person, where its deps come from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torpor.agent import prices
from torpor.agent.limits import Budget
from torpor.agent.window import Window
from torpor.core.effect import Safety

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from torpor.agent.tools import Tool
    from torpor.agent.watchdog import Watchdog

AGENT = "__torpor_agent__"
"""Where a program made of an agent keeps what was declared about it."""
Approve = bool | Callable[..., bool]
"""Whether a call needs a person: always, never, or what a function of its arguments says."""


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
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Those of `app.tool`, by name."""
    conversation: bool = False
    budget: Budget = field(default_factory=Budget)
    window: Window | None = None
    """What is sent at most; None: a share of what the model takes."""
    watchdog: Watchdog | None = None
    calls_per_minute: int | None = None
    trust_hints: bool = False
    planning: Planning | None = None

    def window_for(self, model: Any) -> Window:
        """Return what is sent at most to a model: as declared, else a share of what it is known to take."""
        known = None if self.window is not None or model is None else prices.most_input(model)
        return self.window or Window(known or UNKNOWN_WINDOW)

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

    def asks(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether a call needs a person's consent, as the author declared it. Raises what the author's function raises."""
        known = self.tools.get(tool)
        rule = self.approve.get(tool, known.approve if known is not None else False)
        return bool(rule(**args)) if callable(rule) else bool(rule)

    def warning(self, tools: Iterable[str]) -> str:
        """Return what a worker says of tools that nothing is declared of, or nothing."""
        undeclared = sorted(set(tools) - set(self.safety) - set(self.tools))
        return f"tools that nothing is declared of count as `once`: {', '.join(undeclared)}" if undeclared else ""

    def timeout_of(self, tool: str) -> float | None:
        """Return after how many seconds a call is given up, or None."""
        known = self.tools.get(tool)
        return known.timeout_seconds if known is not None else None

    async def make_deps(self) -> Any:
        """Return the agent's dependencies, made anew for each stretch if a factory was declared."""
        made = self.deps() if callable(self.deps) else self.deps
        return await made if inspect.isawaitable(made) else made
