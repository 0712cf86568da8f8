"""A bank's support: it knows the customer, looks at the balance, may block a card, and answers in a form."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel, Field
from pydantic_ai import Agent, RunContext
from torpor import App


@dataclass
class Bank:
    """The bank's computer, of which this is a small one."""

    names: dict[int, str] = field(default_factory=lambda: {17: "Ada"})
    cents: dict[int, int] = field(default_factory=lambda: {17: 123_45})
    blocked: list[int] = field(default_factory=list)


@dataclass
class Desk:
    """Who is asking, and at which bank."""

    customer: int
    bank: Bank


class Advice(BaseModel):
    """What the customer gets."""

    text: str
    risk: int = Field(ge=0, le=10)


support = Agent(
    "openai:gpt-5-mini",
    deps_type=Desk,
    output_type=Advice,
    instructions="You are the support of a bank. Judge how great the risk is.",
)


@support.instructions
def customer(ctx: RunContext[Desk]) -> str:
    """Say who is asking."""
    return f"The customer is {ctx.deps.bank.names[ctx.deps.customer]}."


@support.tool
def balance(ctx: RunContext[Desk]) -> str:
    """Look at the customer's balance."""
    return f"{ctx.deps.bank.cents[ctx.deps.customer] / 100:.2f} euros"


@support.tool
def block_card(ctx: RunContext[Desk], reason: str) -> str:
    """Block the customer's card, for good."""
    ctx.deps.bank.blocked.append(ctx.deps.customer)
    return f"the card is blocked: {reason}"


desk = Desk(17, Bank())
app = App()
app.agent("support", support, deps=desk, safety={"balance": "repeatable"}, approve={"block_card": True})
