"""LangGraph with its savers for PostgreSQL and SQLite. `--mode` is its durability: sync, or async, which does not wait.

There is no worker: whoever knows of a run calls it. W1 spreads the runs over sixteen savers, because one has one connection.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from typing import Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from measuring import (
    PER_SECOND,
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
DURABILITY = WANTED.mode or "sync"
SAVERS = 16
AT_ONCE = 500
STAMPS: list[float] = []
WOKEN = Woken()


class State(TypedDict):
    """A count, where it ends, and what the last step gave."""

    n: int
    end: int
    last: Any


def called(number: int) -> dict:
    """Return how a run is named, with no limit that a long one meets."""
    return {"configurable": {"thread_id": f"run-{number}"}, "recursion_limit": 1_000_000}


async def tiny(state: State) -> dict:
    """Count, and give a payload back."""
    return {"n": state["n"] + 1, "last": payload(state["n"])}


async def stamped(state: State) -> dict:
    """Note the moment, and count."""
    STAMPS.append(time.perf_counter())
    return await tiny(state)


async def waiting(state: State) -> dict:
    """W2: wait for somebody."""
    given = interrupt("go")
    WOKEN.wakes(state["end"])
    return {"last": given}


async def frontier(_: State) -> dict:
    """W3: where the first process is killed."""
    say("frontier")
    if WANTED.holds:
        threading.Event().wait()
    return {"last": None}


async def effect(_: State) -> dict:
    """W5."""
    act(WANTED.line)
    if WANTED.holds:
        threading.Event().wait()
    return {"last": None}


def looping(step: Any, then: Any = None) -> StateGraph:
    """Return a graph that does a step until its count is reached, then perhaps another one."""
    graph = StateGraph(State)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    after = END
    if then is not None:
        after = "then"
        graph.add_node("then", then)
        graph.add_edge("then", END)
    graph.add_conditional_edges("step", lambda state: "step" if state["n"] < state["end"] else after, ["step", after])
    return graph


class Savers:
    """Savers on one database."""

    def __init__(self, place: str, stack: AsyncExitStack) -> None:
        """Open none yet."""
        self._place = place
        self._stack = stack

    async def graph(self, graph: StateGraph, *, new: bool = True) -> Any:
        """Return a graph on a saver of its own; `new` makes the tables."""
        kind = AsyncPostgresSaver if "://" in self._place else AsyncSqliteSaver
        saver = await self._stack.enter_async_context(kind.from_conn_string(self._place))
        if "://" not in self._place:
            await saver.conn.execute("PRAGMA busy_timeout = 60000")  # sixteen savers share one file
        if new:
            await saver.setup()
        return graph.compile(checkpointer=saver)


async def throughput(savers: Savers) -> None:
    """W1."""
    graphs = [await savers.graph(looping(tiny), new=n == 0) for n in range(SAVERS)]
    began = time.perf_counter()
    first = {"n": 0, "end": WANTED.steps, "last": None}
    await asyncio.gather(
        *[graphs[n % SAVERS].ainvoke(first, called(n), durability=DURABILITY) for n in range(WANTED.runs)]
    )
    answer(WANTED, mode=DURABILITY, savers=SAVERS, **per_second(WANTED, time.perf_counter() - began))


async def latency(savers: Savers) -> None:
    """W4."""
    graph = await savers.graph(looping(stamped))
    await graph.ainvoke({"n": 0, "end": WANTED.steps, "last": None}, called(0), durability=DURABILITY)
    answer(WANTED, mode=DURABILITY, steps=WANTED.steps, **gaps(STAMPS))


async def sleeping(savers: Savers, place: str) -> None:
    """W2: a run is woken by calling it."""
    graph = await savers.graph(looping(tiny, waiting))
    empty, idle = bytes_of(place), rss_mb()
    for first in range(0, WANTED.parked, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, WANTED.parked))
        await asyncio.gather(
            *[graph.ainvoke({"n": n, "end": n, "last": None}, called(n), durability="sync") for n in numbers]
        )
    per_run, full = round((bytes_of(place) - empty) / WANTED.parked), rss_mb()
    calls = []
    for number in WANTED.chosen():
        WOKEN.sends(number)
        calls.append(asyncio.create_task(graph.ainvoke(Command(resume="now"), called(number), durability="sync")))
        await asyncio.sleep(1 / PER_SECOND)
    await asyncio.gather(*calls)
    fields = {"store_bytes_per_parked": per_run, "rss0_mb": idle, "rss_parked_mb": full}
    answer(WANTED, parked=WANTED.parked, **WOKEN.row(), **fields)


async def child(savers: Savers) -> None:
    """Be a process that is killed, or the caller that goes on."""
    say("loaded")
    if WANTED.workload == "w3":
        graph = await savers.graph(looping(tiny, frontier), new=WANTED.holds)
        first = {"n": 0, "end": WANTED.history, "last": None}
    else:
        graph = await savers.graph(looping(tiny, effect), new=WANTED.holds)
        first = {"n": 0, "end": 1, "last": None}
    await graph.ainvoke(first if WANTED.holds else None, called(0), durability="sync")
    say("done")


async def measure(on: Ground) -> None:
    """Do what is asked."""
    async with AsyncExitStack() as stack:
        savers = Savers(WANTED.place or on.place, stack)
        if WANTED.role:
            await child(savers)
        elif WANTED.workload == "w1":
            await throughput(savers)
        elif WANTED.workload == "w4":
            await latency(savers)
        elif WANTED.workload == "w2":
            await sleeping(savers, on.place)
        else:
            await savers.graph(looping(tiny))
            await asyncio.sleep(2)
            answer(WANTED, rss_mb=rss_mb())


if WANTED.role:
    asyncio.run(measure(Ground(WANTED.place, None)))
else:
    with ground(WANTED) as here:
        if WANTED.workload in {"w3", "w5"}:
            answer(WANTED, **killed(WANTED, here))
        else:
            asyncio.run(measure(here))
