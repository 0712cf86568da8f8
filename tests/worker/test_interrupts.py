"""Interrupts: the open calls end, each with a result of its own, and the run lives on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Conflict, Context, Interrupted, NeedsPerson, RunFailed, UsageError
from torpor.client import Client

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()
WORLD: dict[str, asyncio.Event] = {}
"""Events of one test: `began` is set when something acts, `gate` lets it end."""


@app.step
async def think(what: str) -> str:
    """Think until nobody wants to know any more."""
    WORLD["began"].set()
    await asyncio.Event().wait()
    return what


@app.effect
async def pay(what: str) -> str:
    """Pay, and take until the gate is opened."""
    COUNTER.act(what)
    WORLD["began"].set()
    await WORLD["gate"].wait()
    return f"paid {what}"


async def _told(name: str, work: Any) -> str:
    try:
        return f"{name}: {await work}"
    except Interrupted as stop:
        return f"{name} interrupted: {stop.reason}"


@app.flow
async def busy(ctx: Context) -> Any:
    """Do several things at once, then listen again."""
    calls = [
        _told("step", ctx.step(think, "hard")),
        _told("sleep", ctx.sleep(600)),
        _told("message", ctx.receive("never")),
        _told("approval", ctx.approval("go?")),
    ]
    first = await asyncio.gather(*calls)
    return [*first, await ctx.receive("next")]


@app.flow
async def waiting(ctx: Context) -> Any:
    """Wait for a message, whatever happens; sleep under a timeout that is no sleep."""
    async with asyncio.timeout(3600):
        told = await _told("message", ctx.receive("go"))
    return [told, await ctx.receive("next")]


@app.flow
async def buying(ctx: Context) -> Any:
    """Pay, then think."""
    paid = await _told("pay", ctx.effect(pay, "rent"))
    thought = await _told("think", ctx.step(think, "more"))
    return [paid, thought, await ctx.receive("next")]


@app.flow
async def careless(ctx: Context) -> Any:
    """Catch nothing."""
    return await ctx.receive("go")


def _fresh() -> None:
    WORLD.update(began=asyncio.Event(), gate=asyncio.Event())


def test_each_open_call_ends_and_the_run_lives_on(store: Store, moment: Moment) -> None:
    """A running turn: step, sleep, message and approval each raise, in their order; the next message is taken."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        _fresh()
        run = await lab.start(busy)
        await lab.worker()
        await WORLD["began"].wait()
        assert await client.interrupt(run.name, reason="stop it", by="ada", key="k")
        assert not await client.interrupt(run.name, reason="stop it", by="ada", key="k")
        await lab.signal(run, "next", "on")
        names = ["step", "sleep", "message", "approval"]
        assert await lab.result(run) == [*(f"{name} interrupted: stop it" for name in names), "on"]
        assert (await client.inbox()).items == []
        lines = await lab.journal(run)
        assert [line.kind for line in lines].count("outcome") == 5  # four failures and the result

    on(store, moment, app, check)


@pytest.mark.slow
def test_a_waiting_run_is_interrupted_and_killed_anywhere_it_ends_the_same(store: Store, moment: Moment) -> None:
    """A run that sleeps is woken by it; replay raises it again, at the same place."""

    async def drive(lab: Lab, run: Run) -> None:
        client = Client(lab.store)
        await lab.settle()
        await client.interrupt(run.name, reason="now", key="one")
        await lab.settle()
        await lab.signal(run, "next", "on", key="two")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(waiting, drive=drive):
            assert await crash.result() == ["message interrupted: now", "on"], crash

    on(store, moment, app, check)


def test_an_effect_that_began_is_waited_for_and_what_follows_is_ended(store: Store, moment: Moment) -> None:
    """Its outcome is what it was; the interrupt is kept meanwhile and hits the call after it."""

    async def check(lab: Lab) -> None:
        _fresh()
        run = await lab.start(buying)
        await lab.worker()
        await WORLD["began"].wait()
        await Client(lab.store).interrupt(run.name, reason="enough")
        await lab.signal(run, "next", "on")
        WORLD["gate"].set()
        assert await lab.result(run) == ["pay: paid rent", "think interrupted: enough", "on"]
        assert COUNTER.calls == ["rent"]

    on(store, moment, app, check)


def test_who_does_not_catch_it_fails_and_who_ended_refuses_it(store: Store, moment: Moment) -> None:
    """It is an exception like any other, with its reason; a run that ended cannot be interrupted."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(careless)
        with pytest.raises(NeedsPerson):
            await lab.result(run)
        await client.interrupt(run.name, reason="why not")
        with pytest.raises(RunFailed, match="go was interrupted: why not"):
            await lab.result(run)
        with pytest.raises(Conflict):
            await client.interrupt(run.name)

    on(store, moment, app, check)


def test_names_of_torpors_own_are_refused(store: Store, moment: Moment) -> None:
    """Nobody sends an interrupt by its name."""

    async def check(lab: Lab) -> None:
        run = await lab.start(careless)
        with pytest.raises(UsageError, match="torpor's own"):
            await Client(lab.store).signal(run.name, "~interrupt")

    on(store, moment, app, check)
