"""What an agent may use up, beside what stands in the store: tokens, calls, time.

Dollars are reserved before each model call, in one tree with the run's children (`agent.asking`, G20). The other limits are
counts that the run keeps of itself: they are looked at before each model call, so the last turn may go over by what it used.
Running out is a question to a person, who may grant more; the run sleeps meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from torpor.core.money import micros_of
from torpor.errors import BudgetExceeded, UsageError
from torpor.sdk.steps import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from torpor.agent.state import AgentState
    from torpor.sdk.context import Context


MOST_WHOLE = 1_000_000_000
"""More tokens or turns are a slip."""
MOST_CALLS = 1_000_000
"""What a rate bucket takes at most in its time."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run of an agent may use; what is None has no limit.

    `usd` are dollars, of the run and its children together. `tokens` counts input and output, `model_calls` answers,
    `tool_calls` calls that a tool ran for. `wall` is the time since the run's start, `awake` the time in which a worker went on
    with it, seconds or timedeltas. Raises UsageError for what is no amount.
    """

    usd: Decimal | str | int | None = None
    tokens: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    wall: float | timedelta | None = None
    awake: float | timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse what is no amount."""
        if self.usd is not None:
            micros_of(self.usd, "the budget's usd")
        for name in ("tokens", "model_calls", "tool_calls"):
            count: object = getattr(self, name)
            if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
                raise UsageError(f"a budget's {name} is {count!r}", hint="a whole number, 0 or more; None for no limit")
        seconds_of(self.wall, "a budget's wall")
        seconds_of(self.awake, "a budget's awake")


def budget_of(given: object, agent: str) -> Budget:
    """Return `budget=` of an agent; an amount by itself is one of dollars. Raises UsageError for what is no budget."""
    if given is None or isinstance(given, Budget):
        return given or Budget()
    if isinstance(given, bool) or not isinstance(given, Decimal | int | str):
        raise UsageError(
            f"budget of agent {agent} is {given!r}",
            hint='budget=Budget(usd="0.50", model_calls=40), or dollars: "0.50"',
        )
    micros_of(given, f"budget of agent {agent}")
    return Budget(usd=given)


def whole_of(given: object, what: str, hint: str, *, most: int = MOST_WHOLE) -> int | None:
    """Return a whole number from 1 to `most`, or None. Raises UsageError for anything else; `what` names it."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= most:
        raise UsageError(f"{what} is {given!r}: it is a whole number from 1 to {most:,}", hint=hint)
    return given


class _Count(NamedTuple):
    name: str
    used: int
    most: int
    words: str


def _counts(budget: Budget, state: AgentState, now: float) -> Iterator[_Count]:
    """Yield what is limited beside dollars, and how much of it was used."""
    usage = state.usage
    tokens = int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))
    if budget.tokens is not None:
        yield _Count("tokens", tokens, budget.tokens, "tokens")
    if budget.model_calls is not None:
        yield _Count("model_calls", int(usage.get("requests", 0)), budget.model_calls, "model calls")
    if budget.tool_calls is not None:
        yield _Count("tool_calls", int(usage.get("tool_calls", 0)), budget.tool_calls, "tool calls")
    if (wall := seconds_of(budget.wall, "wall")) is not None:
        yield _Count("wall", round(now - state.began), round(wall), "seconds since its start")
    if (awake := seconds_of(budget.awake, "awake")) is not None:
        yield _Count("awake", round(state.awake), round(awake), "seconds awake")


def _more() -> Any:
    """Return the type of how many more a person grants: none is an answer, less than none is a slip."""
    from pydantic import Field  # not before it is needed: `torpor.Budget` loads nothing heavy

    return Annotated[int, Field(ge=0)]


async def begin(ctx: Context, budget: Budget, state: AgentState) -> None:
    """Take up a budget, in a run's first turn: a limit of its own, unless whoever started it gave one."""
    if budget.usd is not None:
        await ctx.budget.limit(budget.usd)
    if budget.wall is not None:
        state.began = ctx.now().timestamp()


async def keep(ctx: Context, name: str, budget: Budget, state: AgentState) -> None:
    """Ask a person for more of what is used up, before the model is asked. Raises BudgetExceeded if they grant nothing."""
    now = ctx.now().timestamp() if budget.wall is not None else 0.0
    for count in _counts(budget, state, now):
        allowed = count.most + state.granted.get(count.name, 0)
        while count.used >= allowed:
            question = f"{name} has used {count.used:,} of {allowed:,} {count.words}. How many more may it use?"
            answer = await ctx.ask(question, schema=_more())
            more = answer.value or 0
            if more <= 0:
                raise BudgetExceeded(
                    f"{name} has used {count.used:,} of {allowed:,} {count.words}; {answer.by} granted no more"
                )
            allowed += more
            state.granted[count.name] = state.granted.get(count.name, 0) + more
