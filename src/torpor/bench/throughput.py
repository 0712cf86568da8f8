"""W1: many runs of a few tiny steps each, in one worker process. How many steps a second become durable?"""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torpor import clock
from torpor.bench.conditions import conditions, rss_mb
from torpor.bench.parent import make_known
from torpor.bench.places import fresh
from torpor.bench.programs import app
from torpor.bench.rows import Row, Wanted, median_row
from torpor.client import Client
from torpor.errors import TorporError
from torpor.runtime import Process, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.bench.places import Place
    from torpor.core.run import State
    from torpor.store.protocol import Store
    from torpor.worker.roles import Executor


def throughput(wanted: Wanted) -> Row:
    """Measure W1."""
    return median_row(lambda: _trial(wanted), wanted.trials, by="steps_s")


def _trial(wanted: Wanted) -> Row:
    with fresh(wanted.store) as place:
        empty, row = asyncio.run(_measured(place, wanted))
        at_rest = (place.size_bytes() - empty) // wanted.runs
        return {**row, "bytes_per_run_at_rest": at_rest, **conditions(place)}


async def _measured(place: Place, wanted: Wanted) -> tuple[int, Row]:
    async with opened(place.url) as store:
        await make_known(store, app)
        empty = place.size_bytes()
        began = clock.monotonic()
        client = Client(store)
        await asyncio.gather(*[client.start("loop", wanted.steps) for _ in range(wanted.runs)])
        spawn_seconds = clock.monotonic() - began
        seconds, batches = await drive(store, wanted.runs)
        whole = seconds + spawn_seconds
        return empty, {
            "w": "w1",
            "peer": place.peer,
            "runs": wanted.runs,
            "steps": wanted.steps,
            "spawn_secs": round(spawn_seconds, 3),
            "secs": round(seconds, 3),
            "runs_s": round(wanted.runs / seconds, 1),
            "steps_s": round(wanted.runs * wanted.steps / seconds, 1),
            "runs_s_incl_spawn": round(wanted.runs / whole, 1),
            "steps_s_incl_spawn": round(wanted.runs * wanted.steps / whole, 1),
            "batches": batches,
            "bytes_per_run": (place.size_bytes() - empty) // wanted.runs,
            "rss_mb": rss_mb(),
        }


async def drive(store: Store, runs: int) -> tuple[float, int]:
    """Let one worker with its waker end so many runs: the seconds from its start to the last end, and its commit batches."""
    process = Process(store, app)
    left = runs
    ended_at = 0.0

    def tell(event: str, executor: Executor, state: State) -> None:
        nonlocal left, ended_at
        if event == "left" and state.final:
            left -= 1
            if left == 0:
                ended_at = clock.monotonic()
                process.worker.stop()
        elif event == "lost":
            executor.worker.log.error("a measured run was lost", run=executor.name)

    process.worker.on_event = tell
    with _settings_put_back():
        began = clock.monotonic()
        await process.run(signals=True)  # as a process that is a worker and nothing else
    if left:
        raise TorporError(f"{left} of {runs} measured runs did not end")
    return ended_at - began, process.worker.committer.batches


@contextmanager
def _settings_put_back() -> Iterator[None]:
    """Put back afterwards what a worker's process sets for itself: how garbage is collected, how threads take turns."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
