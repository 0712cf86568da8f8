"""Absurd on PostgreSQL: sixteen clients with a connection and a thread each, as its own client has one connection.

Its tables come with `absurdctl`, the package of its command line.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import absurdctl
from absurd_sdk import Absurd
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
    run_sql,
    say,
)

WANTED = asked(["postgres"])
CLIENTS = 16
LEASE_SECONDS = 4
"""Of the process that is killed. By itself it is 120."""
STAMPS: list[float] = []
WOKEN = Woken()
ENDED = threading.Semaphore(0)


def install(place: str) -> None:
    """Make Absurd's tables and a queue."""
    wanted = absurdctl.ABSURD_SCHEMA_TARGET_VERSION
    tables, _ = absurdctl.load_absurd_sql(str(Path(absurdctl.__file__).parent), wanted, False)  # noqa: FBT003
    run_sql(place, tables)
    client = Absurd(place)
    client.create_queue("default")
    client.close()


def client(place: str) -> Absurd:
    """Return a client that knows what is measured."""
    app = Absurd(place)

    @app.register_task(name="loop")
    def loop(given: dict, ctx: object) -> dict:
        for n in range(given["steps"]):
            ctx.step("tiny", lambda n=n: payload(n))
        ENDED.release()
        return {}

    @app.register_task(name="stamped")
    def stamped(given: dict, ctx: object) -> dict:
        def step(n: int) -> dict:
            STAMPS.append(time.perf_counter())
            return payload(n)

        for n in range(given["steps"]):
            ctx.step("stamped", lambda n=n: step(n))
        ENDED.release()
        return {}

    @app.register_task(name="parked")
    def parked(given: dict, ctx: object) -> dict:
        ctx.step("tiny", lambda: payload(0))
        ctx.await_event(f"go-{given['number']}")
        WOKEN.wakes(given["number"])
        return {}

    @app.register_task(name="history")
    def history(given: dict, ctx: object) -> dict:
        for n in range(given["steps"]):
            ctx.step("tiny", lambda n=n: payload(n))

        def frontier() -> dict:
            say("frontier")
            if WANTED.holds:
                threading.Event().wait()
            return {}

        ctx.step("frontier", frontier)
        return {}

    @app.register_task(name="acting")
    def acting(given: dict, ctx: object) -> dict:
        ctx.step("tiny", lambda: payload(0))

        def effect() -> dict:
            act(given["line"])
            if WANTED.holds:
                threading.Event().wait()
            return {}

        ctx.step("effect", effect)
        say("done")
        return {}

    return app


def work(place: str, clients: int) -> None:
    """Let so many clients work, each in a thread."""
    for n in range(clients):
        options = {"concurrency": 1, "worker_id": f"worker-{n}"}
        threading.Thread(target=client(place).start_worker, kwargs=options, daemon=True).start()


def throughput(place: str) -> None:
    """W1: runs are started before."""
    starter = client(place)
    for _ in range(WANTED.runs):
        starter.spawn("loop", {"steps": WANTED.steps})
    began = time.perf_counter()
    work(place, CLIENTS)
    for _ in range(WANTED.runs):
        ENDED.acquire()
    answer(WANTED, clients=CLIENTS, **per_second(WANTED, time.perf_counter() - began))


def latency(place: str) -> None:
    """W4."""
    client(place).spawn("stamped", {"steps": WANTED.steps})
    work(place, 1)
    ENDED.acquire()
    answer(WANTED, steps=WANTED.steps, **gaps(STAMPS))


def sleeping(place: str) -> None:
    """W2: each run waits for an event of its own."""
    empty, idle = bytes_of(place), rss_mb()
    starter = client(place)
    for number in range(WANTED.parked):
        starter.spawn("parked", {"number": number})
    work(place, 4)
    while run_sql(place, "SELECT count(*) FROM absurd.w_default")[0][0] < WANTED.parked:
        time.sleep(0.1)
    time.sleep(1)
    per_run, full = round((bytes_of(place) - empty) / WANTED.parked), rss_mb()
    for number in WANTED.chosen():
        WOKEN.sends(number)
        starter.emit_event(f"go-{number}", {"go": "now"})
        time.sleep(WOKEN.rest(number))
    while not WOKEN.all:
        time.sleep(0.02)
    fields = {"store_bytes_per_parked": per_run, "rss0_mb": idle, "rss_parked_mb": full}
    answer(WANTED, parked=WANTED.parked, clients=4, **WOKEN.row(), **fields)


def idle(place: str) -> None:
    """Wait for nothing."""
    work(place, 1)
    time.sleep(2)
    answer(WANTED, rss_mb=rss_mb())


def measure(on: Ground) -> None:
    """Do what is asked."""
    install(on.place)
    if WANTED.workload in {"w3", "w5"}:
        given = {"steps": WANTED.history, "line": on.line}
        client(on.place).spawn("history" if WANTED.workload == "w3" else "acting", given)
        row = killed(WANTED, on, lambda: time.sleep(LEASE_SECONDS + 1))
        answer(WANTED, **row, note=f"begins when the lease of {LEASE_SECONDS} s is over; by itself it is 120 s")
    else:
        {"w1": throughput, "w2": sleeping, "w4": latency, "idle": idle}[WANTED.workload](on.place)


if WANTED.role:
    say("loaded")
    client(WANTED.place).start_worker(claim_timeout=LEASE_SECONDS if WANTED.holds else 120)
with ground(WANTED) as here:
    measure(here)
os._exit(0)  # its threads do not end by themselves
