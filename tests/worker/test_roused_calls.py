"""A call that fails because its process was away is made again, as after a takeover; a call that fails by itself is not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from tests.worker.labs import on
from torpor import App, Context, RunFailed, rouse

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
HELD: list[asyncio.Queue[asyncio.Future[str]]] = []


async def ask() -> str:
    """Ask somebody; the test says how that ends."""
    said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    HELD[-1].put_nowait(said)
    return await said


@app.step
async def reads() -> str:
    """Ask, and no harm is done if it is asked again."""
    return await ask()


@app.effect(safety="keyed")
async def pays() -> str:
    """Ask somebody who knows the key."""
    return await ask()


@app.effect
async def sends() -> str:
    """Ask somebody who knows nothing."""
    return await ask()


CALLS = {"reads": reads, "pays": pays, "sends": sends}


@app.flow
async def calls(ctx: Context, name: str) -> str:
    """Make one call, with no attempt but the first."""
    if name == "reads":
        return await ctx.step(reads)
    return str(await ctx.effect(CALLS[name]))


def away(worker: Any) -> None:
    """Let the worker's machine sleep for a minute."""
    clocks = ClocksByHand()
    limits = rouse.Limits(tick_seconds=1.0)
    worker.standing._watcher = rouse.Watcher(limits, clocks=clocks.clocks, registry=worker.registry)  # noqa: SLF001
    clocks.suspend(60)
    worker.standing.look()


@pytest.mark.parametrize("name", ["reads", "pays"])
def test_what_fails_across_a_rousal_is_called_again(store: Store, moment: Moment, name: str) -> None:
    """At once, and it is not counted: the next failure, in one life, is the first."""

    async def check(lab: Lab) -> None:
        HELD[:] = [asyncio.Queue()]
        worker: Any = await lab.worker()
        run = await lab.start(calls, name)
        first = await asyncio.wait_for(HELD[0].get(), PATIENCE_SECONDS)
        away(worker)
        first.set_exception(ConnectionResetError("of another life"))
        second = await asyncio.wait_for(HELD[0].get(), PATIENCE_SECONDS)
        second.set_result("answered")
        assert await lab.result(run) == "answered"

    on(store, moment, app, check)


def test_what_fails_in_one_life_fails(store: Store, moment: Moment) -> None:
    """Also if its worker was away before it began."""

    async def check(lab: Lab) -> None:
        HELD[:] = [asyncio.Queue()]
        worker: Any = await lab.worker()
        away(worker)
        run = await lab.start(calls, "reads")
        (await asyncio.wait_for(HELD[0].get(), PATIENCE_SECONDS)).set_exception(ConnectionResetError("of this life"))
        with pytest.raises(RunFailed):
            await lab.result(run)

    on(store, moment, app, check)


def test_an_effect_that_may_have_acted_is_asked_about(store: Store, moment: Moment) -> None:
    """It is `once`: nobody calls it again by itself (G4)."""

    async def check(lab: Lab) -> None:
        HELD[:] = [asyncio.Queue()]
        worker: Any = await lab.worker()
        run = await lab.start(calls, "sends")
        first = await asyncio.wait_for(HELD[0].get(), PATIENCE_SECONDS)
        away(worker)
        first.set_exception(ConnectionResetError("of another life"))
        await lab.settle()
        (wait,) = await lab.waits(run)
        assert "of another life" in wait.show["why"]
        assert HELD[0].empty()

    on(store, moment, app, check)
