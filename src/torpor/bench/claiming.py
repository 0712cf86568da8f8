"""Somebody else's claim: a worker that serves another program of another tenant starts a run of it and claims it, timed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from torpor import clock
from torpor.engine import leases, runs
from torpor.errors import TorporError
from torpor.worker.enrolling import enrol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from torpor.store.protocol import Store

_PAUSE_SECONDS = 0.005
_OTHER = "elsewhere"
"""The program, and its tenant."""


class Claimant:
    """A worker that claims one run at a time, each its own."""

    def __init__(self, store: Store, worker: int, programs: list[int]) -> None:
        """Made by `claimant`."""
        self._store = store
        self._worker = worker
        self._programs = programs

    async def claim(self) -> float:
        """Start a run of our own, claim it, and return how long that took, in seconds. A moment's rest follows."""
        await self._store.transact(runs.start, [runs.Start(_OTHER, b"0", tenant=_OTHER)])
        at = clock.monotonic()
        claimed, _ = await self._store.transact(leases.claim, self._worker, self._programs, 1, 1, 0)
        seconds = clock.monotonic() - at
        if not claimed:
            raise TorporError("a measured claim found nothing")
        await asyncio.sleep(_PAUSE_SECONDS)
        return seconds


@asynccontextmanager
async def claimant(store: Store) -> AsyncIterator[Claimant]:
    """Give a worker of its own program, alive until the end of the block. Its runs stay claimed."""
    numbers = await store.transact(runs.register, [(_OTHER, 1, _OTHER)])
    life = await asyncio.to_thread(store.life_lock, _OTHER)
    try:
        worker, *_ = await store.transact(enrol, _OTHER, life.name, numbers)
        yield Claimant(store, worker, numbers)
    finally:
        life.release()
