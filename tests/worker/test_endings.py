"""How runs end or are given back: cancel, drain, idle workers; and how they are named: keys, programs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Conflict, Context, NotFound, RunCancelled, UsageError
from torpor.client import Client
from torpor.core.run import State
from torpor.engine import runs as runs_engine
from torpor.testing import Lab
from torpor.worker.worker import Worker

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Run

app = App()


@app.step
async def make(n: int) -> str:
    """Make a large value."""
    COUNTER.act("make")
    return str(n) * 50_000


@app.effect(safety="keyed")
async def never(what: str) -> None:
    """Be counted, if it ever begins."""
    COUNTER.act(what)


GOING: list[asyncio.Event] = []


@app.step
async def long_step() -> str:
    """Run until it is cancelled."""
    try:
        GOING[0].set()
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        COUNTER.act("step cancelled")
        raise
    return "never"


@app.effect
async def long_effect() -> str:
    """Act until the test lets it end."""
    GOING[0].set()
    await GOING[1].wait()
    COUNTER.act("acted")
    return "acted"


@app.flow
async def cancelled(ctx: Context, what: str) -> Any:
    """Be cancelled here or there."""
    if what == "step":
        await ctx.step(long_step)
    elif what == "effect":
        await ctx.effect(long_effect)
        await ctx.effect(never, "never")
    elif what == "approval":
        await ctx.approval("Go?")
    return "not cancelled"


@pytest.mark.parametrize("what", ["step", "effect", "approval", "ready"])
def test_cancel_holds(store: Store, moment: Moment, what: str) -> None:
    """A step is cut off, an acting effect ends and is recorded, a question is closed, nothing more begins (G12)."""

    async def check(lab: Lab) -> None:
        GOING[:] = [asyncio.Event(), asyncio.Event()]
        run = await lab.start(cancelled, what)
        if what in {"step", "effect"}:
            settling = asyncio.create_task(lab.settle())
            await GOING[0].wait()
            await lab.cancel(run)
            GOING[1].set()
            await settling
        else:
            if what == "approval":
                await lab.settle()
            await lab.cancel(run)
        with pytest.raises(RunCancelled):
            await lab.result(run)
        if what == "step":
            assert COUNTER.calls == ["step cancelled"]
        if what == "effect":
            assert COUNTER.calls == ["acted"]
            assert [effect.state for effect in await lab.effects(run)] == ["done"]
        if what == "approval":
            with pytest.raises(NotFound):
                await lab.approve(run)
        await lab.cancel(run)
        assert not await lab.signal(run, "late")

    on(store, moment, app, check)


@pytest.mark.slow
def test_cancel_holds_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Acknowledged while the run waits: it ends as cancelled, whatever happens then."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        await lab.cancel(run)
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(cancelled, "approval", drive=drive):
            assert await crash.state() == "cancelled", crash
            assert await lab.waits(crash.run) == []

    on(store, moment, app, check)


# drain


@app.flow
async def drained(ctx: Context) -> Any:
    """Have an effect and a step under way, and more to do."""
    first = await asyncio.gather(ctx.effect(long_effect), ctx.step(make, 1))
    second = await ctx.step(make, 2)
    return first[0], len(first[1]), len(second)


@app.flow
async def acts_on(ctx: Context) -> list[str]:
    """Have one effect after another."""
    return [await ctx.effect(long_effect), await ctx.effect(long_effect)]


@pytest.mark.parametrize(("flow", "result"), [(drained, ("acted", 50_000, 50_000)), (acts_on, ["acted", "acted"])])
def test_a_drained_worker_gives_everything_back(store: Store, moment: Moment, flow: Any, result: Any) -> None:
    """The effect ends and is recorded, nothing new begins, no effect either, and the next worker goes on at once."""

    async def check(lab: Lab) -> None:
        GOING[:] = [asyncio.Event(), asyncio.Event()]
        run = await lab.start(flow)
        worker = await lab.worker()
        await GOING[0].wait()
        worker.stop()
        GOING[1].set()
        await lab.drain()
        assert await lab.state(run) == "ready"
        assert [effect.state for effect in await lab.effects(run)] == ["done"]
        assert COUNTER.calls.count("acted") == 1
        assert await lab.store.transact(lambda tx: (tx.all_leases(limit=9), tx.workers())) == ([], [])
        assert await lab.result(run) == result
        assert COUNTER.calls.count("acted") == (2 if flow is acts_on else 1)

    on(store, moment, app, check)


def test_a_worker_until_idle_ends(store: Store, moment: Moment) -> None:
    """When nothing that it serves is ready or soon due, and not before."""

    async def main() -> None:
        async with Lab(app, store=store, clock=moment) as lab:
            runs = [await lab.start(cancelled, "ready") for _ in range(5)]
            waiting = await lab.start(cancelled, "approval")
            await store.transact(runs_engine.register, [("elsewhere", 1, "other:elsewhere")])
            foreign = await Client(store).start("elsewhere")
            async with asyncio.timeout(PATIENCE_SECONDS):
                await Worker(store, app.flows, until_idle=True).run()
            assert [await lab.state(run) for run in runs] == ["completed"] * 5
            assert await lab.state(waiting) == "waiting"
            assert (await Client(store).get(foreign.run_id)).state == "ready", "another program is another worker's"

    asyncio.run(main())


# keys and names


def test_an_equal_key_is_the_same_run(store: Store, moment: Moment) -> None:
    """Starting again with the same key changes nothing, also when the run has ended."""

    async def check(lab: Lab) -> None:
        first = await lab.start(cancelled, "ready", key="order-1")
        assert await lab.start(cancelled, "step", key="order-1") == first
        assert await lab.result(first) == "not cancelled"
        assert await lab.start(cancelled, "ready", key="order-1") == first
        assert await lab.start(cancelled, "ready", key="order-2") != first

    on(store, moment, app, check)


def test_an_unknown_program_is_refused(store: Store, moment: Moment) -> None:
    """The error names what there is."""

    async def check(lab: Lab) -> None:
        with pytest.raises(UsageError, match='no program named "nothing"'):
            await lab.start("nothing")

    on(store, moment, app, check)


def test_two_apps_with_one_program_name(store: Store, moment: Moment) -> None:
    """While a worker serves the one, a worker of the other does not start, and nothing is lost."""
    other = App()

    @other.flow(name="cancelled")
    async def somebody_elses(_ctx: Context) -> str:
        return "wrong code"

    async def check(lab: Lab) -> None:
        run = await lab.start(cancelled, "approval")
        await lab.settle()
        with pytest.raises(Conflict, match='two apps have a program named "cancelled"'):
            await Worker(store, other.flows).run()
        await lab.approve(run)
        assert await lab.result(run) == "not cancelled"
        assert (await lab.store.transact(lambda tx: tx.get_runs([run.number])))[run.number].state is State.COMPLETED

    on(store, moment, app, check)
