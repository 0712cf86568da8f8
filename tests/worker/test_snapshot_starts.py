"""A snapshot is asked for while the worker starts, or by a host that hangs up."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.counter import COUNTER
from tests.worker.labs import Hold, once, until
from tests.worker.test_quiet import door
from tests.worker.test_snapshot_ready import EVENTS, Faulty, app, fresh, place, saying, waits, working_at
from torpor import rouse
from torpor.client import Client
from torpor.runtime import Process
from torpor.worker.enrolling import enrol
from torpor.worker.snapshot_door import answering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.stores import Place

__all__ = ["fresh", "place"]


@asynccontextmanager
async def starting(place: Place) -> AsyncIterator[tuple[Process, Hold]]:
    """Start a worker that comes as far as its row; told to stop at the end."""
    held = Hold()
    process = Process(Faulty(place, once(lambda op, _args: op is enrol, held)).open(), app)
    EVENTS.update({"first entered": asyncio.Event(), "first leave": asyncio.Event()})
    working = asyncio.create_task(process.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await held.reached.wait()
        yield process, held
        held.released.set()
        process.worker.stop()
        await working


@pytest.mark.parametrize("by_host", [True, False], ids=["host", "process"])
def test_a_snapshot_while_the_worker_starts(place: Place, by_host: bool) -> None:  # noqa: FBT001 - a parameter
    """A host waits until it has started. Who calls in the process is told at once, and the worker begins shut."""

    async def check() -> None:
        client = Client(place.open())
        async with starting(place) as (process, held):
            run = (await client.start("acts_twice")).run_id
            host = door(process)
            if by_host:
                before = saying(host)
                assert await waits(before)
                held.released.set()
                assert await before == "ready"
            else:
                await asyncio.to_thread(rouse.before_snapshot)
                held.released.set()
                await process.worker.ready.wait()
            assert await waits(asyncio.create_task(EVENTS["first entered"].wait()))
            assert COUNTER.count == 0
            assert not rouse.process_registry.is_open
            await host.answer(["none"])
            await EVENTS["first entered"].wait()
            EVENTS["first leave"].set()
            EVENTS["second entered"], EVENTS["second leave"] = asyncio.Event(), asyncio.Event()
            EVENTS["second leave"].set()
            assert await client.result(run) == ["first", "second"]

    asyncio.run(check())


def test_a_worker_that_does_not_start_refuses(place: Place) -> None:
    """Its time is the time of a snapshot."""

    async def check() -> None:
        async with starting(place) as (process, _held):
            process.worker.snapshot_seconds = 0.05
            assert await door(process).answer(["before"]) == "refused: after 0.05 s the worker has not started yet"

    asyncio.run(check())


def test_a_host_that_hung_up_takes_no_snapshot(place: Place, tmp_path: Path) -> None:
    """A `ready` that nobody hears leaves the gate open. One that only says no more still hears."""
    path = str(tmp_path / "door")

    async def check() -> None:
        async with working_at(place) as (process, _, _hand, _working):
            willing = process._why_no_snapshot  # noqa: SLF001 - as `Process.run` does
            async with answering(path, process._opened, willing):  # noqa: SLF001 - as above
                run = (await Client(place.open()).start("acts_twice")).run_id
                await EVENTS["first entered"].wait()
                _, writer = await asyncio.open_unix_connection(path)
                writer.write(b"before\n")
                await until(lambda: process.worker.standing.pausing)
                writer.close()
                await writer.wait_closed()
                EVENTS["first leave"].set()
                await EVENTS["second entered"].wait()  # nobody said `none`
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write(b"before\n")
                writer.write_eof()
                EVENTS["second leave"].set()
                assert await reader.readline() == b"ready\n"
                writer.close()
                await asyncio.to_thread(rouse.no_snapshot)
                assert await Client(place.open()).result(run) == ["first", "second"]

    asyncio.run(check())
