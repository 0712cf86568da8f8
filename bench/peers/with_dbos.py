"""DBOS: its functions on PostgreSQL or SQLite. A step is a transaction; a run waits in a coroutine of its process."""

from __future__ import annotations

import asyncio
import os
import threading
import time

from dbos import DBOS, SetWorkflowID
from measuring import (
    Asked,
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

WANTED = asked(["postgres", "sqlite"])
STAMPS: list[float] = []
WOKEN = Woken()
AT_ONCE = 500


@DBOS.step()
def tiny(n: int) -> dict:
    """Give a payload back."""
    return payload(n)


@DBOS.step()
async def tiny_async(n: int) -> dict:
    """Give a payload back."""
    return payload(n)


@DBOS.step()
def stamped_step(n: int) -> dict:
    """Note the moment."""
    STAMPS.append(time.perf_counter())
    return payload(n)


@DBOS.workflow()
def loop(steps: int) -> int:
    """W1."""
    for n in range(steps):
        tiny(n)
    return steps


@DBOS.workflow()
def stamped(steps: int) -> int:
    """W4."""
    for n in range(steps):
        stamped_step(n)
    return steps


@DBOS.workflow()
async def parked(number: int) -> None:
    """W2."""
    await tiny_async(0)
    await DBOS.recv_async("go", timeout_seconds=1_000_000)
    WOKEN.wakes(number)


@DBOS.step()
def frontier() -> None:
    """W3: where the first process is killed."""
    say("frontier")
    if WANTED.holds:
        threading.Event().wait()


@DBOS.workflow()
def history(steps: int) -> None:
    """W3."""
    for n in range(steps):
        tiny(n)
    frontier()


@DBOS.step()
def effect(line: str) -> None:
    """W5."""
    act(line)
    if WANTED.holds:
        threading.Event().wait()


@DBOS.workflow()
def acting(line: str) -> None:
    """W5."""
    tiny(0)
    effect(line)
    say("done")


def launch(place: str) -> None:
    """Let DBOS take a database, and recover what it finds there."""
    url = place.replace("postgresql://", "postgresql+psycopg://") if "://" in place else f"sqlite:///{place}"
    quiet = {"log_level": "ERROR", "console_log_level": "ERROR"}
    DBOS(config={"name": "peer", "system_database_url": url, "application_version": "1", "executor_id": "one", **quiet})
    DBOS.launch()


def throughput(place: str) -> None:
    """W1: starting is part of it, because a started function runs."""
    launch(place)
    began = time.perf_counter()
    running = [DBOS.start_workflow(loop, WANTED.steps) for _ in range(WANTED.runs)]
    for one in running:
        one.get_result()
    answer(WANTED, **per_second(WANTED, time.perf_counter() - began))


def latency(place: str) -> None:
    """W4."""
    launch(place)
    stamped(WANTED.steps)
    answer(WANTED, **gaps(STAMPS))


async def sleeping(place: str) -> None:
    """W2."""
    launch(place)
    empty, idle = bytes_of(place), rss_mb()

    async def start(number: int) -> None:
        with SetWorkflowID(f"run-{number}"):
            await DBOS.start_workflow_async(parked, number)

    for first in range(0, WANTED.parked, AT_ONCE):
        await asyncio.gather(*[start(n) for n in range(first, min(first + AT_ONCE, WANTED.parked))])
    await asyncio.sleep(5)
    per_run, full = round((bytes_of(place) - empty) / WANTED.parked), rss_mb()

    def send() -> None:
        for number in WANTED.chosen():
            WOKEN.sends(number)
            DBOS.send(f"run-{number}", "now", "go")
            time.sleep(WOKEN.rest(number))

    await asyncio.to_thread(send)
    while not WOKEN.all:
        await asyncio.sleep(0.02)
    fields = {"store_bytes_per_parked": per_run, "rss0_mb": idle, "rss_parked_mb": full}
    answer(WANTED, parked=WANTED.parked, **WOKEN.row(), **fields)


def child(wanted: Asked) -> None:
    """Be a process that is killed, or the one that recovers."""
    say("loaded")
    launch(wanted.place)
    if wanted.holds:
        with SetWorkflowID("run"):
            if wanted.workload == "w3":
                DBOS.start_workflow(history, wanted.history)
            else:
                DBOS.start_workflow(acting, wanted.line)
    threading.Event().wait()


def idle(place: str) -> None:
    """Wait for nothing."""
    launch(place)
    time.sleep(2)
    answer(WANTED, rss_mb=rss_mb())


def measure(on: Ground) -> None:
    """Do what is asked."""
    if WANTED.workload in {"w3", "w5"}:
        answer(WANTED, **killed(WANTED, on))
    elif WANTED.workload == "w2":
        asyncio.run(sleeping(on.place))
    else:
        {"w1": throughput, "w4": latency, "idle": idle}[WANTED.workload](on.place)


if WANTED.role:
    child(WANTED)
with ground(WANTED) as here:
    measure(here)
os._exit(0)  # its threads do not end by themselves
