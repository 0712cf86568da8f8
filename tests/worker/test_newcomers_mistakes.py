"""What people get wrong in their first hour is said, not left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.worker.labs import on
from torpor import App, Context, RunFailed, UsageError

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()


@dataclass
class Order:
    """A state."""

    number: int


@app.step
async def add(number: int) -> int:
    """Add one."""
    return number + 1


@app.flow
async def typed(ctx: Context, state: Order) -> str:
    """Say of what type the state is after a sleep."""
    await ctx.sleep(60)
    return type(state).__name__


@app.flow
async def forgets_a_step(ctx: Context, number: int) -> int:
    """Forget to await a step."""
    ctx.step(add, number)  # type: ignore[unused-coroutine]
    return number


@app.flow
async def forgets_an_approval(ctx: Context, number: int) -> str:
    """Take a coroutine for a decision."""
    if ctx.approval("Really?"):  # type: ignore[truthy-bool]
        return f"yes, {number}"
    return "no"


def test_the_state_keeps_its_type_after_a_sleep(store: Store, moment: Moment) -> None:
    """Input that came as plain JSON has the annotated type in every stretch of the first turn."""

    async def body(lab: Lab) -> None:
        run = await lab.start(typed, {"number": 1})
        await lab.settle()
        lab.advance(60)
        await lab.settle()
        assert await lab.result(run) == "Order"

    on(store, moment, app, body)


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("flow", "said"), [(forgets_a_step, "ctx.step(add)"), (forgets_an_approval, "ctx.approval(Really?)")]
)
def test_a_forgotten_await_fails_the_run(store: Store, moment: Moment, flow: object, said: str) -> None:
    """What was never awaited did not happen; the run does not end as if it had."""

    async def body(lab: Lab) -> None:
        run = await lab.start(flow.__name__, 1)  # type: ignore[attr-defined]
        await lab.settle()
        with pytest.raises(RunFailed, match="never awaited") as failed:
            await lab.result(run)
        assert said in str(failed.value)

    on(store, moment, app, body)


def test_a_flow_without_a_context_is_refused() -> None:
    """Its first parameter would silently become the context."""
    mine = App()
    with pytest.raises(UsageError, match="first parameter is the context"):

        @mine.flow
        async def f(number: int) -> int:
            return number


def test_a_policy_of_text_is_refused() -> None:
    """`retries="3"` is no number."""
    with pytest.raises(UsageError, match="not a retry policy"):
        App().step(retries="3")(add)  # type: ignore[call-overload]
