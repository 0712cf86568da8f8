"""The waker: due timers, dead leases, messages on their way, blobs nobody names. It decides nothing; the engine does.

Any number of them may run, in any process: each sweep takes a bounded number of rows, asks again under their locks, and
leaves what others hold. It sleeps exactly until the next due moment it knows of, and at most a tick.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from torpor import clock, rouse
from torpor.core.lease import LEASE_SECONDS, Proof
from torpor.engine import leases, waits
from torpor.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.engine.leases import Reaped
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import WorkerRow

log = logging.getLogger("torpor.waker")

TICK_SECONDS = 1.0
DEATH_SECONDS = 0.2
"""How often known workers' life locks are tried; a local file lock costs microseconds."""
QUIET_TICKS = 3
BLOB_GRACE_SECONDS = 3600.0


class Waker:
    """One waker on one store. `await waker.run()` until cancelled."""

    def __init__(
        self, store: Store, *, lease_seconds: float = LEASE_SECONDS, clocks: rouse.Clocks | None = None
    ) -> None:
        """Watch a store. `clocks` show that this process was away; the store's own clock says what is due."""
        self._store = store
        self._lease_seconds = lease_seconds
        self._watcher = rouse.Watcher(rouse.Limits(tick_seconds=TICK_SECONDS), clocks=clocks)
        self._next_due = 0
        self._news = asyncio.Event()
        self._workers: list[WorkerRow] = []
        self._quiet_until = 0
        self._looked = -TICK_SECONDS
        self._swept = -BLOB_GRACE_SECONDS
        self._now = 0
        self.on_reaped: Callable[[list[Reaped]], None] = _nobody
        """Told of takeovers: for `torpor dev` and the demo."""
        self.on_ready: Callable[[], None] = _nobody
        """Told that runs became ready: the worker of this process need not wait for a hint."""

    def soon(self, due_at: int) -> None:
        """Say that a run was put away until then, in the store's microseconds."""
        if self._next_due == 0 or due_at < self._next_due:
            self._next_due = due_at
            self._news.set()

    async def run(self) -> None:
        """Sweep until cancelled. Troubles of the store are waited out."""
        self._loop = asyncio.get_running_loop()
        listener = self._store.listen(self._hint)
        try:
            while True:
                await self._round()
        finally:
            await asyncio.to_thread(listener.close)

    def _hint(self, topic: str) -> None:
        if topic == "outbox":
            try:
                self._loop.call_soon_threadsafe(self._news.set)
            except RuntimeError:
                return  # the loop is closed

    async def _round(self) -> None:
        told = self._news.is_set()
        self._news.clear()
        pause = DEATH_SECONDS
        try:
            if self._watcher.check() is not None:
                self._quiet_until = 0  # taken again below, from the store's clock
                self._looked = -TICK_SECONDS
                await self._after_gap()
            more = await self.sweep(messages=told)
            pause = 0.0 if more else self._pause()
        except StoreError as error:
            log.warning("the store has trouble: %s", error.message)
            pause = TICK_SECONDS
        if pause > 0:
            try:
                await asyncio.wait_for(self._news.wait(), pause)
            except TimeoutError:
                return

    def _pause(self) -> float:
        """Until the next due moment, at most until workers are looked at again."""
        most = DEATH_SECONDS if self._workers else TICK_SECONDS
        if self._next_due == 0:
            return most
        return min(max((self._next_due - self._time()) / clock.SECOND, 0.0005), most)

    def _time(self) -> int:
        at, seen = self._now, self._seen
        return at + int((clock.monotonic() - seen) * clock.SECOND)

    _seen = 0.0

    async def _after_gap(self) -> None:
        """After a gap in its own clocks a reaper waits some ticks, so that an opened lid does not kill everything."""
        now = await self._store.transact(lambda tx: tx.now())
        self._quiet_until = now + clock.micros(QUIET_TICKS * TICK_SECONDS)

    async def sweep(self, *, messages: bool = False) -> bool:
        """Do one round of everything that is due; return whether there is certainly more.

        `messages`: somebody said that there are some; otherwise they are looked for once a tick.
        """
        fired = delivered = 0
        tick = clock.monotonic() - self._looked >= TICK_SECONDS
        if tick or (self._next_due and self._time() >= self._next_due):
            fired, due, now = await self._store.transact(_fire)
            self._now, self._seen, self._next_due = now, clock.monotonic(), due or 0
        if tick or messages:
            delivered = await self._store.transact(waits.deliver)
        reaped = await self._reap()
        if fired or delivered or reaped:
            self.on_ready()
        if clock.monotonic() - self._swept >= BLOB_GRACE_SECONDS:
            self._swept = clock.monotonic()
            before = self._now - clock.micros(BLOB_GRACE_SECONDS)
            await self._store.transact(lambda tx: tx.sweep_blobs(before=before, limit=1000))
        return fired >= waits.SWEEP or delivered >= waits.SWEEP

    async def _reap(self) -> int:
        """Take runs from the dead and the silent; return how many."""
        tick = clock.monotonic() - self._looked >= TICK_SECONDS
        if tick:
            self._looked = clock.monotonic()
            self._workers = await self._store.transact(lambda tx: tx.workers())
        proofs = await asyncio.to_thread(self._proofs)
        if not tick and not proofs:
            return 0
        quiet = max(
            self._quiet_until,
            self._store.started_at + clock.micros(self._lease_seconds) if self._store.started_at else 0,
        )
        reaped = await self._store.transact(leases.reap, proofs, quiet_until=quiet)
        if reaped:
            log.info("took %d runs from workers %s", len(reaped), sorted({one.worker for one in reaped}))
            self.on_reaped(reaped)
        gone = [worker for worker, proof in proofs.items() if proof is Proof.PROCESS_GONE]
        if gone:
            await self._store.transact(lambda tx: tx.drop_workers(gone))
            self._workers = [row for row in self._workers if row.id not in gone]
        return len(reaped)

    def _proofs(self) -> dict[int, Proof]:
        found = {row.id: self._store.prove_death(row) for row in self._workers}
        return {worker: proof for worker, proof in found.items() if proof is not Proof.NONE}


def _nobody(*_news: object) -> None:
    """Nobody is interested."""


def _fire(tx: Tx) -> tuple[int, int | None, int]:
    return waits.fire_timers(tx), tx.next_due(), tx.now()
