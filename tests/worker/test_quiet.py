"""`rouse.before_snapshot()` in a worker's process: it returns when nothing acts, and not before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import until
from tests.worker.test_shut import at_work
from torpor import App, Context, rouse
from torpor.client import Client
from torpor.worker.snapshot_door import AT_ONCE, CALLED_OFF, Door

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

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


async def ended(work: Coroutine[Any, Any, bool]) -> bool:
    """Let something that waits go on for a while; return whether it ended."""
    done, waiting = await asyncio.wait([asyncio.ensure_future(work)], timeout=0.5)
    for one in waiting:
        one.cancel()
    return bool(done)


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


def door(process: Process) -> Door:
    """Return where hosts of a process speak."""
    return Door(process._opened, process._why_no_snapshot)  # noqa: SLF001 - as `Process.run` does with a socket


def test_a_host_that_asks_again_hears_no_answer_of_the_first_time(place: Place) -> None:
    """The first `before` is refused and opens its gate again; the second one's is closed when it hears `ready`."""

    async def check() -> None:
        async with at_work(place, app=app) as (process, _, _working):
            quiet, host = process.worker._quiet, door(process)  # noqa: SLF001 - its time
            run = await begun(place)
            quiet._seconds = 0.2  # noqa: SLF001 - as above
            first = asyncio.create_task(host.answer(["before"]))
            await until(lambda: process.worker.standing.pausing)
            quiet._seconds = 60.0  # noqa: SLF001 - as above
            second = asyncio.create_task(host.answer(["before"]))
            assert (await first).startswith("refused: after ")
            await until(lambda: process.worker.standing.pausing)  # the second's: in between the gate was open for all
            _events["leave"].set()
            assert await second == "ready"
            assert not rouse.process_registry.is_open
            assert not acting(process)
            assert not await ended(process.worker.standing.restore())
            assert COUNTER.count == 1
            await asyncio.to_thread(rouse.no_snapshot)
            assert await Client(place.open()).result(run) == 2

    asyncio.run(check())


def test_a_snapshot_that_is_called_off_meanwhile_is_refused(place: Place) -> None:
    """`none` opens the gate while `before`s wait: none of them may hear `ready`, and the worker goes on."""

    async def check() -> None:
        async with at_work(place, app=app) as (process, _, _working):
            host = door(process)
            run = await begun(place)
            waiting = [asyncio.create_task(host.answer(["before"])) for _ in range(AT_ONCE + 2)]
            await until(lambda: process.worker.standing.pausing)
            assert await host.answer(["none"]) == "open"
            assert {(await one)[: len(CALLED_OFF)] for one in waiting} == {CALLED_OFF}
            assert rouse.process_registry.is_open
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
