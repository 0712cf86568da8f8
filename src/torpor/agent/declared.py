"""What an author declares about an agent: how safe its tools are to do again, which need a person, where its deps come from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torpor.agent import prices
from torpor.agent.limits import Budget
from torpor.agent.watchdog import Watchdog
from torpor.agent.window import Window
from torpor.core.effect import Safety

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from torpor.agent.tools import Tool

Approve = bool | Callable[..., bool]
"""Whether a call needs a person: always, never, or what a function of its arguments says."""


UNKNOWN_WINDOW = 100_000
"""How many tokens are sent at most to a model of which nobody knows what it takes."""


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
    watchdog: Watchdog | None = field(default_factory=Watchdog)
    calls_per_minute: int | None = None

    def window_for(self, model: Any) -> Window:
        """Return what is sent at most to a model: as declared, else a share of what it is known to take."""
        known = None if self.window is not None or model is None else prices.most_input(model)
        return self.window or Window(known or UNKNOWN_WINDOW)

    def safety_of(self, tool: str) -> Safety:
        """Return what may be done with a call whose outcome is not known; `once` unless something is declared."""
        known = self.tools.get(tool)
        return self.safety.get(tool, known.safety if known is not None else Safety.ONCE)

    def asks(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether a call needs a person's consent, as the author declared it. Raises what the author's function raises."""
        known = self.tools.get(tool)
        rule = self.approve.get(tool, known.approve if known is not None else False)
        return bool(rule(**args)) if callable(rule) else bool(rule)

    def timeout_of(self, tool: str) -> float | None:
        """Return after how many seconds a call is given up, or None."""
        known = self.tools.get(tool)
        return known.timeout_seconds if known is not None else None

    async def make_deps(self) -> Any:
        """Return the agent's dependencies, made anew for each stretch if a factory was declared."""
        made = self.deps() if callable(self.deps) else self.deps
        return await made if inspect.isawaitable(made) else made
