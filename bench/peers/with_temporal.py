"""Temporal: the development server of its command line, on a file, and a worker of its Python SDK.

The server belongs to this program. TEMPORAL_SERVER names the binary. Each step is an activity; its longest time is three
seconds, because that is how its server learns that a process is gone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from measuring import (
    Ground,
    Woken,
    act,
    answer,
    asked,
    bytes_of,
    gaps,
    ground,
    killed,
    payload,
    per_second,
    rss_mb,
    say,
)
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

if TYPE_CHECKING:
    from pathlib import Path

WANTED = asked(["temporal"])
QUEUE = "peer"
LONGEST = timedelta(seconds=3)
USUAL = timedelta(seconds=60)
AT_ONCE = 100
PATIENCE_SECONDS = 60
STAMPS: list[float] = []
WOKEN = Woken()
ASLEEP: set[int] = set()


@activity.defn
async def tiny(n: int) -> dict:
    """Give a payload back."""
    return payload(n)


@activity.defn
async def stamped_step(n: int) -> dict:
    """Note the moment."""
    STAMPS.append(time.perf_counter())
    return payload(n)


@activity.defn
async def frontier() -> None:
    """W3: where the first process is killed."""
    say("frontier")
    if WANTED.holds:
        threading.Event().wait()


@activity.defn
async def effect(line: str) -> None:
    """W5."""
    act(line)
    if WANTED.holds:
        threading.Event().wait()


@activity.defn
async def end() -> None:
    """W5: say that it is over."""
    say("done")


@workflow.defn
class Loop:
    """W1 and W4."""

    @workflow.run
    async def run(self, steps: int, stamps: bool) -> int:  # noqa: FBT001
        """Do so many steps."""
        for n in range(steps):
            await workflow.execute_activity(stamped_step if stamps else tiny, n, start_to_close_timeout=USUAL)
        return steps


@workflow.defn
class Parked:
    """W2."""

    def __init__(self) -> None:
        """Begin."""
        self.woken = False

    @workflow.run
    async def run(self, number: int) -> None:
        """Do a step, then wait."""
        await workflow.execute_activity(tiny, 0, start_to_close_timeout=USUAL)
        ASLEEP.add(number)
        await workflow.wait_condition(lambda: self.woken)
        WOKEN.wakes(number)

    @workflow.signal
    def go(self) -> None:
        """Wake it."""
        self.woken = True


@workflow.defn
class History:
    """W3."""

    @workflow.run
    async def run(self, steps: int) -> None:
        """Do so many steps, then the last one."""
        for n in range(steps):
            await workflow.execute_activity(tiny, n, start_to_close_timeout=USUAL)
        await workflow.execute_activity(frontier, start_to_close_timeout=LONGEST)


@workflow.defn
class Acting:
    """W5."""

    @workflow.run
    async def run(self, line: str) -> None:
        """Do a step, then the effect."""
        await workflow.execute_activity(tiny, 0, start_to_close_timeout=USUAL)
        await workflow.execute_activity(effect, line, start_to_close_timeout=LONGEST)
        await workflow.execute_activity(end, start_to_close_timeout=USUAL)


def worker(client: Client) -> Worker:
    """Return a worker that takes as much as it can."""
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Loop, Parked, History, Acting],
        activities=[tiny, stamped_step, frontier, effect, end],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_activities=200,
        max_concurrent_workflow_tasks=200,
        max_cached_workflows=20_000,
    )


async def connected(address: str) -> Client:
    """Return a client of a server that may still be starting."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            client = await Client.connect(address)
            await client.count_workflows()
        except Exception:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)
        else:
            return client


@asynccontextmanager
async def server(folder: Path):  # noqa: ANN201
    """Give a development server: its address, its process, its file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = str(folder / "temporal.sqlite")
    command = [os.environ["TEMPORAL_SERVER"], "server", "start-dev", "--headless", "--ip", "127.0.0.1"]
    command += ["--port", str(port), "--db-filename", file, "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220, S603
    try:
        yield f"127.0.0.1:{port}", process, file
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def throughput(client: Client) -> None:
    """W1: starting is part of it."""
    began = time.perf_counter()
    calls = [
        client.execute_workflow(Loop.run, args=[WANTED.steps, False], id=f"run-{n}", task_queue=QUEUE)
        for n in range(WANTED.runs)
    ]
    await asyncio.gather(*calls)
    answer(WANTED, **per_second(WANTED, time.perf_counter() - began))


async def latency(client: Client) -> None:
    """W4."""
    await client.execute_workflow(Loop.run, args=[WANTED.steps, True], id="one", task_queue=QUEUE)
    answer(WANTED, steps=WANTED.steps, **gaps(STAMPS))


async def sleeping(client: Client, process: subprocess.Popen, file: str) -> None:
    """W2."""
    empty, idle, server_idle = bytes_of(file), rss_mb(), rss_mb(process.pid)
    for first in range(0, WANTED.parked, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, WANTED.parked))
        await asyncio.gather(
            *[client.start_workflow(Parked.run, n, id=f"parked-{n}", task_queue=QUEUE) for n in numbers]
        )
    while len(ASLEEP) < WANTED.parked:
        await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    per_run, full = round((bytes_of(file) - empty) / WANTED.parked), rss_mb()
    for number in WANTED.chosen():
        WOKEN.sends(number)
        await client.get_workflow_handle(f"parked-{number}").signal(Parked.go)
        await asyncio.sleep(WOKEN.rest(number))
    while not WOKEN.all:
        await asyncio.sleep(0.02)
    fields = {"store_bytes_per_parked": per_run, "rss0_mb": idle, "rss_parked_mb": full}
    servers = {"server_rss0_mb": server_idle, "server_rss_parked_mb": rss_mb(process.pid)}
    answer(WANTED, parked=WANTED.parked, **WOKEN.row(), **fields, **servers)


async def measure(on: Ground) -> None:
    """Do what is asked."""
    async with server(on.folder) as (address, process, file):
        client = await connected(address)
        if WANTED.workload in {"w3", "w5"}:
            if WANTED.workload == "w3":
                await client.start_workflow(History.run, WANTED.history, id="history", task_queue=QUEUE)
            else:
                await client.start_workflow(Acting.run, on.line, id="acting", task_queue=QUEUE)
            row = await asyncio.to_thread(killed, WANTED, on._replace(place=address))
            answer(WANTED, **row, note=f"waits until an activity took longer than {LONGEST.total_seconds():g} s")
            return
        async with worker(client):
            await client.execute_workflow(Loop.run, args=[2, False], id="warm", task_queue=QUEUE)
            if WANTED.workload == "w1":
                await throughput(client)
            elif WANTED.workload == "w4":
                await latency(client)
            elif WANTED.workload == "w2":
                await sleeping(client, process, file)
            else:
                await asyncio.sleep(2)
                answer(WANTED, rss_mb=rss_mb(), server_rss_mb=rss_mb(process.pid))


async def child() -> None:
    """Be a process that is killed, or the one that goes on."""
    say("loaded")
    await worker(await connected(WANTED.place)).run()


if WANTED.role:
    asyncio.run(child())
with ground(WANTED) as here:
    asyncio.run(measure(here))
os._exit(0)  # its threads do not end by themselves
