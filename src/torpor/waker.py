"""The waker: it calls the sweeps (timers, slots, messages, follow-ups, dead leases, blobs nobody names), and decides nothing.

Any number of wakers may run, in any process: each sweep takes a bounded number of rows, asks again under their locks, and
leaves what others hold. What there is to sweep is a list (`SWEEPS`): each sweep comes once in its time, at once when a
hint names it, and exactly when the moment has come that it foretold. Only the reaper stands apart, because it needs
proofs of death besides the store.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor import clock, rouse
from torpor.core.lease import LEASE_SECONDS, Proof
from torpor.engine import budgets, deadlines, events, follow_ups, leases, lines, retention, schedules, streams, waits
from torpor.engine.sweeps import Swept
from torpor.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.engine.leases import Reaped
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import WorkerRow

log = logging.getLogger("torpor.waker")

TICK_SECONDS = 1.0
DEATH_SECONDS = 0.2
"""How often known workers' life locks are tried; a local file lock costs microseconds."""
QUIET_TICKS = 3
BLOB_GRACE_SECONDS = 3600.0
BLOBS = 1000
TIDY_SECONDS = 60.0


class Sweep(NamedTuple):
    """Something a waker does again and again: `op`, in one transaction, at least every `every_seconds`.

    A hint named `topic` calls it at once; hints may be lost, the time may not.
    """

    op: Callable[[Tx], Swept]
    every_seconds: float = TICK_SECONDS
    topic: str = ""
    aside: Callable[[Any], Callable[[Tx], Swept]] | None = None
    """Works, in a thread and outside any transaction, on what `op` found, and returns what carries the result out."""


def sweep_blobs(tx: Tx) -> Swept:
    """Remove large bodies that nobody has named for a while."""
    swept = tx.sweep_blobs(before=tx.now() - clock.micros(BLOB_GRACE_SECONDS), limit=BLOBS)
    return Swept(swept, swept >= BLOBS)


TIMERS = Sweep(waits.fire_timers)
SWEEPS: tuple[Sweep, ...] = (
    TIMERS,
    Sweep(schedules.look, topic="schedules", aside=schedules.worked_out),
    Sweep(waits.deliver, topic="outbox"),
    Sweep(events.fan_out, topic="events"),
    Sweep(follow_ups.settle, topic="follow-ups"),
    Sweep(lines.admit, topic="lines"),
    Sweep(deadlines.cancel_late, topic="deadlines"),
    Sweep(budgets.wake, topic="budgets"),
    Sweep(retention.sweep),
    Sweep(events.tidy, every_seconds=TIDY_SECONDS),
    Sweep(sweep_blobs, every_seconds=BLOB_GRACE_SECONDS),
)
"""Everything that is swept, in this order. A new sweep is a line here."""


class _Standing:
    """Where a waker stands with one sweep: when it came last, whether it was called, the next moment it foretold."""

    __slots__ = ("called", "came_at", "due_at", "sweep")

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.called = True
        self.came_at = 0.0
        self.due_at = 0

    def due(self, now: int) -> bool:
        """Whether it is time to come, by our own clock or by the store's."""
        late = clock.monotonic() - self.came_at >= self.sweep.every_seconds
        return self.called or late or (self.due_at != 0 and now >= self.due_at)


class Waker:
    """One waker on one store. `await waker.run()` until cancelled."""

    def __init__(
        self,
        store: Store,
        *,
        lease_seconds: float = LEASE_SECONDS,
        clocks: rouse.Clocks | None = None,
        registry: rouse.Registry = rouse.process_registry,
        detectors: Sequence[rouse.Detector] | None = None,
    ) -> None:
        """Watch a store. `clocks` show that this process was away, `registry` is told; the store's own clock says what is due.

        A callback that fails there stops no waker: what it does is safe in every copy, for each sweep asks the store again.
        """
        self._store = store
        self._lease_seconds = lease_seconds
        limits = rouse.Limits(tick_seconds=TICK_SECONDS)
        self._registry = registry
        self._watcher = rouse.Watcher(limits, clocks=clocks, detectors=detectors, registry=registry)
        self._roused, self._life, self._failed = False, rouse.incarnation(), ""
        self._sweeps = [_Standing(sweep) for sweep in SWEEPS]
        self._news = asyncio.Event()
        self._workers: list[WorkerRow] = []
        self._quiet_until = 0
        self._looked = -TICK_SECONDS
        self._now, self._seen = 0, 0.0
        self.on_reaped: Callable[[list[Reaped]], None] = _nobody
        """Told of takeovers: for `torpor dev` and the demo."""
        self.on_ready: Callable[[], None] = _nobody
        """Told that runs became ready: the worker of this process need not wait for a hint."""
        self.on_away: Callable[[], None] | None = None
        """Told that this process was away: who acts here runs the registry's callbacks. None: the waker runs them itself."""

    def soon(self, due_at: int) -> None:
        """Say that a run was put away until then, in the store's microseconds."""
        timers = next(one for one in self._sweeps if one.sweep is TIMERS)
        if timers.due_at == 0 or due_at < timers.due_at:
            timers.due_at = due_at
            self._news.set()

    async def run(self) -> None:
        """Sweep until cancelled. Troubles of the store are waited out."""
        self._loop = asyncio.get_running_loop()
        listener = self._store.listen(self._hint, without=streams.TOPIC)
        roused = self._registry.on_rousal(self._hear, phase=rouse.Phase.SCHEDULES)
        try:
            while True:
                await self._round()
        finally:
            roused.take_back()
            await asyncio.to_thread(listener.close)

    def _hear(self, _rousal: rouse.Rousal) -> None:
        """SCHEDULES, in whichever thread noticed: look at once, for something may have fallen due meanwhile (G8)."""
        self._roused = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._news.set)

    def _hint(self, topic: str) -> None:
        """Hear a hint, in the listener's thread."""
        called = [one for one in self._sweeps if one.sweep.topic == topic]
        for one in called:
            one.called = True
        if called:
            try:
                self._loop.call_soon_threadsafe(self._news.set)
            except RuntimeError:
                return  # the loop is closed

    async def _round(self) -> None:
        self._news.clear()
        pause = DEATH_SECONDS
        try:
            if self._away():
                self._quiet_until = 0  # taken again below, from the store's clock
                self._looked = -TICK_SECONDS
                for one in self._sweeps:
                    one.called = True
                await self._after_gap()
            more = await self.sweep()
            pause = 0.0 if more else self._pause()
        except StoreError as error:
            log.warning("the store has trouble: %s", error.message)
            pause = TICK_SECONDS
        if pause > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()

    def _away(self) -> bool:
        """Whether this process was away since it was last asked, whoever noticed."""
        found, lock = False, self._registry.lock
        if lock.acquire(
            blocking=False
        ):  # else somebody looks or tells, in another thread: callbacks may take their time
            try:
                found = (self._watcher.check if self.on_away is None else self._watcher.notice)() is not None
                self._failed = ""
            except rouse.RousalFailed:
                found = False  # whoever acts says so (worker.standing); that life is over, which is found below
            except Exception as error:
                if repr(error) != self._failed:  # it is tried five times a second
                    log.exception("a look at the clocks failed; it is tried again")
                self._failed = repr(error)
            finally:
                lock.release()
        now, self._roused, roused = rouse.incarnation(), False, self._roused
        found, self._life = found or roused or now != self._life, now
        if found and self.on_away is not None:
            self.on_away()
        return found

    def _pause(self) -> float:
        """Until the next due moment, at most until workers are looked at again."""
        most = DEATH_SECONDS if self._workers else TICK_SECONDS
        due = min((one.due_at for one in self._sweeps if one.due_at), default=0)
        if due == 0:
            return most
        return min(max((due - self._time()) / clock.SECOND, 0.0005), most)

    def _time(self) -> int:
        at, seen = self._now, self._seen
        return at + int((clock.monotonic() - seen) * clock.SECOND)

    async def _after_gap(self) -> None:
        """After a gap in its own clocks a reaper waits some ticks, so that an opened lid does not kill everything."""
        now = await self._store.transact(lambda tx: tx.now())
        self._quiet_until = now + clock.micros(QUIET_TICKS * TICK_SECONDS)

    async def sweep(self) -> bool:
        """Do one round of everything that is due; return whether there is certainly more."""
        if await self._reap():  # first, because it is what a worker that begins after a death waits for
            self.on_ready()
        done, more = 0, False
        for one in self._sweeps:
            if one.due(self._time()):
                swept = await self._come(one)
                done += swept.done
                more = more or swept.more
        if done:
            self.on_ready()
        return more

    async def _come(self, one: _Standing) -> Swept:
        one.called, one.due_at, one.came_at = False, 0, clock.monotonic()
        try:
            swept, now = await self._store.transact(_swept, one.sweep.op)
            if one.sweep.aside is not None and swept.found is not None:
                carry_out = await asyncio.to_thread(one.sweep.aside, swept.found)
                swept, now = await self._store.transact(_swept, carry_out)
        except StoreError:
            one.called = True
            raise
        self._now, self._seen = now, clock.monotonic()
        one.called = one.called or swept.more
        one.due_at = min(filter(None, (one.due_at, swept.due_at)), default=0)  # `soon` may have said one meanwhile
        return swept

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
            names = {row.id: row.name for row in self._workers}
            lost = sorted({names.get(one.worker, f"worker {one.worker}") for one in reaped})
            log.info("took %d run%s from %s", len(reaped), "s" * (len(reaped) > 1), ", ".join(lost))
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


def _swept(tx: Tx, op: Callable[[Tx], Swept]) -> tuple[Swept, int]:
    return op(tx), tx.now()
