"""`rouse.before_snapshot()` in a worker's process: it returns when nothing acts, and not before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.worker.counter import COUNTER
from tests.worker.test_shut import at_work, until
from torpor import App, Context, rouse
from torpor.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stores import Place
    from torpor.runtime import Process

app = App()
_events: dict[str, asyncio.Event] = {}


@app.effect(safety="once")
async def acts() -> int:
    """Act for as long as the test wants."""
    COUNTER.act()
    _events["entered"].set()
    await _events["leave"].wait()
    return COUNTER.count


@app.flow
async def works(ctx: Context) -> int:
    """Act twice."""
    await ctx.effect(acts)
    return await ctx.effect(acts)


@pytest.fixture
def place(make_place: Callable[[str], Place]) -> Iterator[Place]:
    """Return a fresh file, and leave the process's gate open."""
    COUNTER.clear()
    yield make_place("sqlite")
    rouse.no_snapshot()


def acting(process: Process) -> bool:
    """Whether an effect of a process is past its gate."""
    return any(executor.progress.effects.past_gate for executor in process.worker.executors.values())


async def begun(place: Place) -> str:
    """Start a run, and return its name once it acts."""
    _events.update(entered=asyncio.Event(), leave=asyncio.Event())
    run = (await Client(place.open()).start("works")).run_id
    await _events["entered"].wait()
    return run


def test_without_the_worker_a_snapshot_has_an_effect_in_it(place: Place) -> None:
    """The fault: a worker that does not hear of it acts at the moment at which the snapshot is allowed."""

    async def check() -> None:
        async with at_work(place, app=app, registry=rouse.Registry()) as (process, _, _working):
            await begun(place)
            await asyncio.to_thread(rouse.before_snapshot)
            assert acting(process)
            _events["leave"].set()

    asyncio.run(check())


def test_a_snapshot_has_no_effect_in_it(place: Place) -> None:
    """The cure: it waits for the one that acts, whose outcome is recorded; the next one begins after the restore."""

    async def check() -> None:
        async with at_work(place, app=app) as (process, _, _working):
            run = await begun(place)
            taking = asyncio.create_task(asyncio.to_thread(rouse.before_snapshot))
            await until(lambda: process.worker.standing.pausing)
            assert not taking.done()
            _events["leave"].set()
            await taking
            assert not acting(process)
            assert not process.worker.standing.may_write()
            assert COUNTER.count == 1
            await asyncio.to_thread(rouse.after_restore)
            assert await Client(place.open()).result(run) == 2
            assert process.worker.standing.rousals >= 1

    asyncio.run(check())


def test_it_is_not_called_in_the_loop(place: Place) -> None:
    """There it would wait for itself: it says how to call it, and the worker goes on."""

    async def check() -> None:
        async with at_work(place, app=app) as (_process, _, _working):
            run = await begun(place)
            with pytest.raises(RuntimeError, match=r"asyncio.to_thread\(rouse.before_snapshot\)"):
                rouse.before_snapshot()
            rouse.no_snapshot()
            _events["leave"].set()
            assert await Client(place.open()).result(run) == 2

    asyncio.run(check())


def test_a_worker_that_ended_is_asked_nothing(place: Place) -> None:
    """Nor does it hear of rousals any more."""

    async def check() -> Process:
        async with at_work(place, app=app) as (process, _, _working):
            return process

    process = asyncio.run(check())
    rouse.before_snapshot()
    rouse.after_restore()
    assert process.worker.standing.rousals == 0
