"""G7 and G12 for children: killed at every commit of starting and joining, each is started once, each end is given out once.

The worker that dies drives parents and children alike, and delivers their messages; whoever goes on finishes what it left.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Context, EffectContext
from torpor.core.run import State
from torpor.testing import Crash, Place
from torpor.testing.mortal import KILLS, Plan

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import RunRow
    from torpor.testing import Lab, Run

pytestmark = pytest.mark.slow
app = App()


@app.effect(safety="keyed")
async def work(ctx: EffectContext, number: int) -> int:
    """Act where the far side knows the key."""
    COUNTER.act(ctx.key)
    return number


@app.flow
async def worker(ctx: Context, number: int) -> int:
    """Be a child."""
    return await ctx.effect(work, number)


@app.flow
async def waits(ctx: Context, number: int) -> int:
    """Be a child that never ends by itself."""
    await ctx.receive("go")
    return await ctx.effect(work, number)


@app.flow
async def both(ctx: Context) -> list[int]:
    """Start two children and join them at once."""
    children = await asyncio.gather(ctx.spawn("worker", 1), ctx.spawn("worker", 2))
    results: list[int] = await ctx.join_all(children)
    return results


@app.flow
async def turns(ctx: Context, started: list[str]) -> Any:
    """Start a child in each turn, then join one after the other."""
    if len(started) < 2:
        return ctx.again([*started, await ctx.spawn("worker", len(started) + 1)])
    return [await ctx.join(child) for child in started]


@app.flow
async def parent(ctx: Context) -> Any:
    """Start two children, one of which starts one, and wait for a word that never comes."""
    await ctx.spawn("waits", 1)
    await ctx.spawn("grand", 2)
    return await ctx.receive("never")


@app.flow
async def grand(ctx: Context, number: int) -> Any:
    """Start one child and wait for it."""
    return await ctx.join(await ctx.spawn("waits", number))


def _family(tx: Tx, run: int) -> list[RunRow]:
    found = tx.children(run, limit=100)
    return [*found, *(below for child in found for below in _family(tx, child.id))]


POINTS = ("a delivery", "wait worker#1, wait worker#1", "consumed 2 children#1")


class Named(Plan):
    """A kill that is planned by what the worker does, not by how often it did something before."""

    def __init__(self, words: str) -> None:
        """Kill once, after a commit that these words are said of."""
        super().__init__(Place.AFTER, 1)
        self._words = words

    def now(self, place: Place, what: str) -> bool:
        """Whether to kill here."""
        return self._words in what and super().now(place, what)


async def once_each(crash: Crash[Lab]) -> None:
    """Each child was started once and acted once; nothing is left over: no message, no note, no unread signal."""
    lab, run = crash.lab, crash.run
    assert await crash.result() == [1, 2], crash
    await lab.settle()
    rows = await lab.store.transact(_family, run.number)
    assert [row.state for row in rows] == [State.COMPLETED] * 2, crash
    assert COUNTER.keys == 2, crash
    left = await lab.store.transact(
        lambda tx: (tx.outbox(limit=9), tx.follow_ups(limit=9), tx.unread([run.number, *(row.id for row in rows)]))
    )
    assert left == ([], [], {}), crash
    joins = [line for line in await crash.journal() if line.kind == "consumed" and "worker" not in line.key]
    assert len(joins) <= 2, crash


async def killed_at(lab: Lab, words: str) -> str:
    """Kill a worker after the first commit that is said to be this, alone or beside others; return `words` if it was."""
    COUNTER.clear()
    lab.crash(Place.UNDISTURBED, 0)
    plan = lab.plan = Named(words)
    alive: Any = await lab.worker()
    alive.mortal.plan = plan
    run = await lab.start(both)
    await lab.settle()
    await once_each(Crash(lab, run, plan.place, 1, plan.what))
    return words if words in plan.what else f"not {words}"


def test_each_child_is_started_and_joined_once(store: Store, moment: Moment) -> None:
    """Two at once, joined by one wait."""

    async def check(lab: Lab) -> None:
        points: set[str] = set()
        async for crash in lab.every_crash(both, before=COUNTER.clear, places=KILLS):
            await once_each(crash)
            points.add(crash.what)
        for words in POINTS:  # what shares a batch with what is a matter of pace, so the count may have gone past one
            points.add(await killed_at(lab, words))
        assert {"a delivery", "wait worker#1, wait worker#1", "consumed 2 children#1"} <= points, points

    on(store, moment, app, check)


def test_the_same_over_several_turns(store: Store, moment: Moment) -> None:
    """What was started in one turn is joined in another."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(turns, [], before=COUNTER.clear, places=KILLS):
            await once_each(crash)

    on(store, moment, app, check)


def test_a_cancel_reaches_everybody_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Cancelled once all are asleep or on their way: nobody is left alive, and nobody acted (G12)."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        await lab.cancel(run)
        await lab.settle()

    async def check(lab: Lab) -> None:
        crashes = 0
        async for crash in lab.every_crash(parent, drive=drive, before=COUNTER.clear, places=KILLS):
            rows = await lab.store.transact(_family, crash.run.number)
            assert len(rows) == 3, crash
            assert [row.state for row in rows] == [State.CANCELLED] * 3, crash
            assert await crash.state() == "cancelled", crash
            assert COUNTER.count == 0, crash
            crashes += 1
        assert crashes > 20

    on(store, moment, app, check)


@pytest.mark.parametrize("where", [Place.BEFORE, Place.AFTER])
def test_a_cancel_that_meets_a_start(store: Store, moment: Moment, where: Place) -> None:
    """Cancelled at the very moment at which the worker dies with a start: there is a child for the cascade, or none."""

    async def check(lab: Lab) -> None:
        for point in range(1, 6):
            lab.crash(where, point)
            run = await lab.start(parent)
            settling = asyncio.create_task(lab.settle())
            while lab.plan.left:
                await lab.change()
            await lab.cancel(run)
            await settling
            await lab.settle()
            rows = await lab.store.transact(_family, run.number)
            assert {row.state for row in rows} <= {State.CANCELLED}, (where, point, rows)
            assert await lab.state(run) == "cancelled"

    on(store, moment, app, check)
