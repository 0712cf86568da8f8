"""The capability that makes a pydantic-ai agent durable: its model calls and tool calls go through the journal.

It stands innermost: everything an author's own capabilities do happens around it, and what is recorded is what the model
really answered and what the tool really gave back.

* **A model call** (`agent.asking`) is a step, `model@1`, one for each attempt. What was sent is in the messages.
* **A tool call** (`agent.calls`) is an effect (a step, if it is declared repeatable) named after the tool, known by its
  position in the model's answer, never by the provider's id, which may repeat or be empty. Its arguments in the journal are
  those that ran.
* **Consent** is asked of a person before the effect begins, about exactly these arguments (G10). Edited ones are what runs,
  and the model is told so.
* Whatever happens to a call, the model gets exactly one result for it: that of the tool, or a sentence that says what is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import WrapperToolset
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering

from torpor.agent import outcomes
from torpor.agent.asking import RecordedModel
from torpor.agent.calls import Call, because
from torpor.agent.delegate import child_of, failure
from torpor.agent.servers import name_undeclared
from torpor.errors import ChildFailed, Interrupted, StepFailed

if TYPE_CHECKING:
    from pydantic_ai import AbstractToolset, RunContext, ToolsetTool
    from pydantic_ai.models import Model

    from torpor.agent.conversation import Conversation


@dataclass
class Durable(AbstractCapability[Any]):
    """The way of an agent's loop into the journal, by the guest of the turn that is on."""

    conversation: Conversation

    def get_ordering(self) -> CapabilityOrdering:
        """Stand innermost."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_model(self, model: Model) -> Model:
        """Record what the model answers."""
        return RecordedModel(model, self.conversation)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Record what tools give back."""
        return RecordedToolset(toolset, self.conversation)


@dataclass
class RecordedToolset(WrapperToolset[Any]):
    """An agent's tools, each call of which is asked about, recorded, and paired with one result."""

    conversation: Conversation

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools; those that wait for consent are called like others, and ask then."""
        tools = await self.wrapped.get_tools(ctx)
        self.conversation.declared.learn(tools)
        name_undeclared(self.conversation.declared, tools.values())
        asking = {name: tool for name, tool in tools.items() if tool.tool_def.kind == "unapproved"}
        self.conversation.asking.update(asking)
        plain = {name: replace(tool, tool_def=replace(tool.tool_def, kind="function")) for name, tool in asking.items()}
        return {**tools, **plain}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Return what the tool gave back, of the journal or now."""
        call = Call(self.conversation, self.wrapped, name, tool_args, ctx, tool)
        try:
            return await call.settle()
        except Interrupted as interrupted:
            self.conversation.interrupted = True
            begun = " It had begun: its effects are unknown." if interrupted.unknown else ""
            raise await call.failed(f"A person interrupted this call{because(interrupted.reason)}.{begun}") from None
        except ChildFailed as failed:
            raise await call.failed(failure(child_of(tool.tool_def) or name, failed)) from None
        except StepFailed as failed:
            raise await call.failed(outcomes.failure(name, failed)) from None
