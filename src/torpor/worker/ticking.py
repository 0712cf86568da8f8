"""A worker's tick: looks whether this process was away, proves the life lock, and polls what hints may have lost.

A worker never goes on without it. Whatever a tick raises ends the worker, with the reason, as a lost life lock does: an idle
worker has no other way to learn that it was given up, and one whose hints are lost no other way to hear of anything.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from torpor.core.run import State
from torpor.errors import StoreError

if TYPE_CHECKING:
    from torpor.store.protocol import Store
    from torpor.worker.executor import Executor
    from torpor.worker.standing import Standing


class Ticking(Protocol):
    """A worker, to its tick."""

    loop: asyncio.AbstractEventLoop
    store: Store
    log: Any
    standing: Standing
    look_now: asyncio.Event
    executors: dict[int, Executor]
    concurrency: int
    others_wait: bool

    def look_at(self, executor: Executor) -> None:
        """Read soon what the store has for a run."""

    def wake(self) -> None:
        """Look for ready runs at once."""


async def tick(worker: Ticking, every_seconds: float) -> None:
    """Tick until cancelled, or until the worker must never act again."""
    standing = worker.standing
    try:
        while await _stands(worker, every_seconds):
            try:
                await _look_around(worker, every_seconds)
            except StoreError as error:
                worker.log.warning("the store has trouble", error=error.message)
    except Exception as error:
        worker.log.exception("the tick failed", hint="this worker ends; a defect of torpor's: please report it")
        standing.gone = standing.gone or f"its tick failed: {error!r}"
    worker.log.error("fenced", why=standing.gone)
    for executor in list(worker.executors.values()):
        executor.lost(standing.gone)
    worker.wake()


async def _stands(worker: Ticking, every_seconds: float) -> bool:
    """Wait for the next tick, and return whether the worker may go on."""
    with suppress(TimeoutError):
        async with asyncio.timeout(every_seconds):
            await worker.look_now.wait()
    worker.look_now.clear()
    stands = worker.standing.look() or await worker.standing.restore()
    return stands and await worker.standing.prove()


async def _look_around(worker: Ticking, every_seconds: float) -> None:
    if len(worker.executors) >= worker.concurrency:
        ready = await worker.store.transact(lambda tx: tx.count_runs([State.READY], most=1))
        worker.others_wait = ready[State.READY] > 0
    else:
        worker.others_wait = False
    now = worker.loop.time()
    for executor in worker.executors.values():  # hints may be lost; this is the poll behind them (G7, G12)
        if executor.progress.waits or now - executor.born > every_seconds:
            worker.look_at(executor)
    await asyncio.to_thread(worker.store.tend)
