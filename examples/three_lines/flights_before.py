"""A journey: flights are found by an agent of their own, a seat is chosen, and the one that fits is booked."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext


class Flight(BaseModel):
    """One flight."""

    number: str
    start: str
    end: str
    euros: int


OFFERED = [
    Flight(number="TP1", start="ANC", end="SFO", euros=340),
    Flight(number="TP2", start="ANC", end="SFO", euros=210),
    Flight(number="TP3", start="ANC", end="SEA", euros=90),
]


@dataclass
class Journey:
    """Where it goes, what it may cost, and what was booked."""

    start: str
    end: str
    most_euros: int
    booked: list[str] = field(default_factory=list)


finder = Agent("openai:gpt-5-mini", output_type=list[Flight], instructions="Find the flights that fit.")
traveller = Agent(
    "openai:gpt-5-mini",
    deps_type=Journey,
    output_type=Flight,
    instructions="Find the cheapest flight, then book one seat by the window in it.",
)


@finder.tool_plain
def offers(start: str) -> list[Flight]:
    """List what leaves from an airport."""
    return [flight for flight in OFFERED if flight.start == start]


@traveller.tool
async def find(ctx: RunContext[Journey]) -> list[Flight]:
    """Ask the other agent which flights fit the journey."""
    found = await finder.run(f"From {ctx.deps.start} to {ctx.deps.end}", usage=ctx.usage)
    return found.output


@traveller.tool
def book(ctx: RunContext[Journey], number: str, row: int, seat: str) -> str:
    """Book a seat. Windows are A and F."""
    if seat not in {"A", "F"}:
        raise ModelRetry(f"{seat} is not by the window")
    ctx.deps.booked.append(f"{number} {row}{seat}")
    return f"{number}, seat {row}{seat}, is yours"


@traveller.output_validator
def affordable(ctx: RunContext[Journey], output: Flight) -> Flight:
    """Send the agent back if it does not fit."""
    if output.end != ctx.deps.end or output.euros > ctx.deps.most_euros:
        raise ModelRetry(f"{output.number} goes to {output.end} for {output.euros} euros")
    return output


journey = Journey("ANC", "SFO", 300)
if __name__ == "__main__":
    print(traveller.run_sync("Take me to San Francisco.", deps=journey).output)
