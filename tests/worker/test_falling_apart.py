"""What a run leaves in memory: nothing for the collector, whose work stops every thread of the worker."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from torpor import App, Context
from torpor.testing import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

app = App()
RUNS = 5
OF_A_RUN = frozenset(
    f"torpor.worker.{room}"
    for room in (
        *("executor", "progress", "commits", "turn", "draft", "bodies", "linger", "call"),
        *("acting", "questions", "children", "spending", "arrivals"),
    )
)
OF_A_WORKER = frozenset({"Secrets"})
"""What lives as long as a worker, for all its runs: one of an earlier test may go at any moment."""


@app.step
async def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


@app.effect(safety="once")
async def send(number: int) -> int:
    """Return the number."""
    return number


@app.flow
async def works(ctx: Context, turn: int) -> object:
    """Do steps and an effect, for three turns."""
    total = sum(await asyncio.gather(*(ctx.step(double, n) for n in range(3))))
    await ctx.effect(send, total)
    return ctx.again(turn + 1) if turn < 2 else total


@app.flow
async def sleeps(ctx: Context, turn: int) -> int:
    """Be put away twice, with a step in between."""
    await ctx.sleep(3600)
    turn = await ctx.step(double, turn)
    await ctx.sleep(3600)
    return turn


@app.flow
async def listens(ctx: Context, turn: int) -> object:
    """Wait for a message."""
    return turn, await ctx.receive("go")


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Keep the collector from running by itself."""
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("flow", [works, sleeps, listens])
def test_a_run_leaves_no_circle_behind(flow: Callable[..., Any]) -> None:
    """Whatever an executor was made of is gone as soon as its run is put away."""

    async def story() -> list[str]:
        async with Lab(app) as lab:
            for _ in range(RUNS):
                run = await lab.start(flow, 0)
                await lab.settle()
                if flow is listens:
                    await lab.signal(run, "go", 1)
                await lab.result(run)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = [type(each) for each in gc.garbage]
            return [
                kind.__qualname__
                for kind in left
                if kind.__module__ in OF_A_RUN and kind.__qualname__ not in OF_A_WORKER
            ]

    assert asyncio.run(story()) == []
