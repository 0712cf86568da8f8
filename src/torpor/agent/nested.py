"""`app.nested`: an agent that is seen inside the tools of others, where it is asked by `await other.run(...)`.

Its model calls and tool calls are recorded one by one, its tools may need a person, and the run sleeps meanwhile. How:
`agent.inside`. Anywhere else the capability changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering

from torpor.agent.declared import Declared, rules, safeties
from torpor.agent.durable import Durable
from torpor.agent.inside import around

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_ai import RunContext
    from pydantic_ai.agent import AbstractAgent

    from torpor.agent.tools import Approve
    from torpor.core.effect import Safety


@dataclass
class Nested(AbstractCapability[Any]):
    """What an agent says that wants to be seen inside the tools of others: `capabilities=[app.nested(...)]`."""

    safety: Mapping[str, Safety | str] = field(default_factory=dict)
    approve: Mapping[str, Approve] = field(default_factory=dict)
    declared: Declared | None = None

    def get_ordering(self) -> CapabilityOrdering:
        """Stand innermost."""
        return CapabilityOrdering(position="innermost")

    def for_agent(self, agent: AbstractAgent[Any, Any]) -> Nested:
        """Know the agent's tools. Raises UsageError."""
        known: Any = agent
        name = agent.name or ""
        return replace(self, declared=Declared(name, known, safeties(self.safety, name), rules(self.approve, name)))

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return the way into the journal if this is inside a tool of a durable agent; else change nothing."""
        tool = around()
        if tool is None or self.declared is None:
            return self
        name = self.declared.name or self.declared.agent.name or "agent"
        return Durable(tool.begin(replace(self.declared, name=name).fresh(tool.conversation.guest.run_id), ctx.model))
