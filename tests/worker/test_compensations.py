"""Compensations: what a run registered is undone when it is cancelled, newest first, and nothing else starts (G12)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, Hold, on, times
from torpor import App, Context, EffectContext, NotDone, RunCancelled
from torpor.client import Client
from torpor.engine import cancels, effects

if TYPE_CHECKING:
    from tests.stores import Moment
    from tests.worker.labs import Fault
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()


@app.effect(safety="keyed")
async def release(ctx: EffectContext, what: str) -> str:
    """Give something back, with a key."""
    COUNTER.act(f"release {what} {ctx.key}")
    return what


@app.effect
async def refund(ctx: EffectContext, amount: int) -> str:
    """Pay back, which nobody can repeat."""
    COUNTER.act(f"refund {amount}")
    return ctx.key


@app.effect(safety="keyed")
async def refuse(ctx: EffectContext) -> None:
    """Never work."""
    del ctx
    raise NotDone("the shop is closed")


@app.effect
async def charge(ctx: EffectContext, amount: int) -> str:
    """Charge: must not start once cancel was asked."""
    COUNTER.act(f"charge {amount}")
    return ctx.key


def _by_hand() -> None:
    """Undo in no way that torpor could find again."""


@app.flow
async def trip(ctx: Context, state: int) -> Any:
    """Register three things over two turns, take one back, and wait for what never comes."""
    if state == 0:
        await ctx.on_cancel(release, "hotel")
        taken = await ctx.on_cancel(release, "train")
        await ctx.effect(charge, 1)
        await ctx.drop_on_cancel(taken)
        return ctx.again(1)
    await ctx.on_cancel(refund, 10)
    await ctx.approval("go?")
    return await ctx.effect(charge, 2)


@app.flow
async def hopeless(ctx: Context) -> Any:
    """Register something that fails, and something that does not."""
    await ctx.on_cancel(release, "hotel")
    await ctx.on_cancel(refuse)
    await ctx.receive("never")


@app.flow
async def gated(ctx: Context) -> Any:
    """Register, then act."""
    await ctx.on_cancel(release, "hotel")
    return await ctx.effect(charge, 3)


@app.flow
async def finds_nothing(ctx: Context) -> Any:
    """Register what is no effect of the app."""
    return await ctx.on_cancel(_by_hand)


def _acts() -> list[str]:
    return [" ".join(call.split()[:2]) for call in COUNTER.calls]


def test_the_newest_is_undone_first_and_what_was_taken_back_is_not(store: Store, moment: Moment) -> None:
    """Over turns; then the run is cancelled, its question is closed, and its story says why."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(trip, 0)
        await lab.settle()
        await client.cancel(run.name, reason="rained off")
        with pytest.raises(RunCancelled):
            await lab.result(run)
        assert _acts() == ["charge 1", "refund 10", "release hotel"]
        assert (await client.inbox()).items == []
        assert (await client.get(run.name)).reason == "rained off"
        last = (await lab.journal(run))[-1]
        assert last.value == {"note": "cancelled", "why": "rained off", "undone": 2}

    on(store, moment, app, check)


def test_a_run_that_ends_by_itself_undoes_nothing(store: Store, moment: Moment) -> None:
    """Compensations are for a cancel."""

    async def check(lab: Lab) -> None:
        run = await lab.start(trip, 0)
        await lab.settle()
        await lab.approve(run)
        await lab.result(run)
        assert _acts() == ["charge 1", "charge 2"]

    on(store, moment, app, check)


@pytest.mark.slow
def test_killed_anywhere_nothing_that_is_once_is_undone_twice(store: Store, moment: Moment) -> None:
    """A `once` compensation whose outcome nobody knows is a question; a keyed one is repeated under its key (G4, G5)."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        await lab.cancel(run)
        await lab.settle()
        for wait in await lab.waits(run):
            if wait.kind == "attention":
                await lab.answer(wait, happened="a person looked")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(trip, 0, drive=drive, before=COUNTER.clear):
            if await lab.state(crash.run) == "cancelled":
                acts = _acts()
                assert acts.count("refund 10") <= 1, crash
                assert acts.count("charge 2") == 0, crash
                released = {call for call in COUNTER.calls if call.startswith("release hotel")}
                assert len(released) <= 1, crash

    on(store, moment, app, check)


def test_one_that_fails_for_good_is_settled_by_a_person(store: Store, moment: Moment) -> None:
    """It waits in the inbox, cancelled as it is (G13); "it failed" goes on with the others."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(hopeless)
        await lab.settle()
        await lab.cancel(run)
        await lab.settle()
        line = await client.get(run.name)
        assert (line.shown, line.cancelling, _acts()) == ("needs you", True, [])
        (item,) = (await client.inbox()).items
        assert "failed for good: the shop is closed" in item.content["why"]
        await lab.answer(run, again=True)
        await lab.settle()
        assert (await client.get(run.name)).shown == "needs you"
        await lab.answer(run, fail="I rang them up")
        with pytest.raises(RunCancelled):
            await lab.result(run)
        assert _acts() == ["release hotel"]

    on(store, moment, app, check)


def test_an_effect_that_waits_for_its_gate_does_not_slip_through(store: Store, moment: Moment) -> None:
    """Cancel is asked while the gate is being read: the compensations pass it, the effect before them never does."""
    gate, reading = Hold(), Hold()
    faulty = FaultyStore(store)
    first = times(1, effects.look, gate)

    def fault(op: Any, args: tuple[Any, ...]) -> Fault:
        return reading if op is cancels.to_undo else first(op, args)

    async def check(lab: Lab) -> None:
        run = await lab.start(gated)
        faulty.fault = fault
        settling = asyncio.create_task(lab.settle())
        await gate.reached.wait()
        await lab.cancel(run)
        await reading.reached.wait()
        gate.released.set()
        reading.released.set()
        await settling
        assert (await lab.state(run), _acts()) == ("cancelled", ["release hotel"])

    on(cast("Store", faulty), moment, app, check)


def test_a_compensation_that_the_code_has_lost_is_a_trouble(store: Store, moment: Moment) -> None:
    """The run waits, cancelled as it is, until the code is back, or a person leaves it undone (G13)."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        runs = [await lab.start(trip, 0) for _ in range(2)]
        await lab.settle()
        lost = app.effects.pop("release")
        try:
            for run in runs:
                await lab.cancel(run)
            await lab.settle()
            (item, _) = (await client.inbox()).items
            assert "the effect release that undoes something is not in this code" in item.what
            await lab.answer(runs[0], fail="leave it")
            await lab.settle()
            assert await lab.state(runs[0]) == "cancelled"
        finally:
            app.effects["release"] = lost
        await lab.answer(runs[1], again=True)
        await lab.settle()
        assert await lab.state(runs[1]) == "cancelled"
        assert _acts() == ["charge 1", "charge 1", "refund 10", "release hotel"]

    on(store, moment, app, check)


def test_what_no_worker_could_find_again_is_refused(store: Store, moment: Moment) -> None:
    """At once, with what to do."""

    async def check(lab: Lab) -> None:
        run = await lab.start(finds_nothing)
        with pytest.raises(Exception, match="no effect of the app has this name"):
            await lab.result(run)

    on(store, moment, app, check)
