"""A worker that claims a run again before it knows that its lease was taken away: two executors of one run in one process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App, Context
from torpor.engine import leases

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
BEGUN: list[asyncio.Queue[asyncio.Future[str]]] = []


@app.step
async def held() -> str:
    """Say what the test says, when the test says it."""
    said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    BEGUN[-1].put_nowait(said)
    return await said


@app.flow
async def holds(ctx: Context) -> str:
    """Do one step."""
    return await ctx.step(held)


def test_a_run_that_is_claimed_again_has_one_executor(store: Store, moment: Moment) -> None:
    """The older one is lost with the claim: its commits never share a batch with those of the new one (G1, G3)."""

    async def check(lab: Lab) -> None:
        begun: asyncio.Queue[asyncio.Future[str]] = asyncio.Queue()
        BEGUN[:] = [begun]
        worker: Any = await lab.worker()
        lost: list[str] = []
        worker.on_event = lambda what, executor, _state: lost.append(f"{executor.lease.epoch} {what}")
        run = await lab.start(holds)
        first = await asyncio.wait_for(begun.get(), PATIENCE_SECONDS)
        old = worker.executors[run.number]
        moment.advance(46)
        await lab.store.transact(leases.reap, {}, quiet_until=0)
        worker._wake.set()  # noqa: SLF001 - as the hint does
        second = await asyncio.wait_for(begun.get(), PATIENCE_SECONDS)
        assert old.ended
        assert first.cancelled()
        assert lost == ["1 awake", "1 lost", "2 awake"]
        second.set_result("said")
        assert await lab.result(run) == "said"
        assert [line.epoch for line in await lab.journal(run)] == [2, 2]

    on(store, moment, app, check)


def test_a_run_that_is_lost_before_it_begins_does_not_begin(store: Store, moment: Moment) -> None:
    """Its callback comes all the same: a body made then would never run, and nobody would close it."""

    async def check(lab: Lab) -> None:
        begun: asyncio.Queue[asyncio.Future[str]] = asyncio.Queue()
        BEGUN[:] = [begun]
        worker: Any = await lab.worker()
        await lab.start(holds)
        await asyncio.wait_for(begun.get(), PATIENCE_SECONDS)
        (executor,) = worker.executors.values()
        executor.lost("its worker ends")
        executor.start()
        assert executor.turn is None

    on(store, moment, app, check)
