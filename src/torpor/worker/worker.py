"""A worker: claims ready runs, drives each in an executor, and lets go of them when it must.

It is temporary by design. It can be killed at any moment and loses nothing; asked to drain (SIGTERM) it takes no more,
lets effects that act end, and gives its leases back so that others go on at once.

Three clocks of its own: hints wake the claim loop, a poll of one second is the truth behind them, and every second the
worker compares its clocks (`rouse`): after a gap nothing is done before every lease was checked again (`standing`).
"""

from __future__ import annotations

import asyncio
import os
import secrets as entropy
from contextlib import suppress
from typing import TYPE_CHECKING

from torpor import clock, rouse
from torpor.core.lease import LEASE_SECONDS, Proof
from torpor.core.run import State
from torpor.engine import leases
from torpor.engine.streams import TOPIC
from torpor.errors import StoreError, StoreUnavailable
from torpor.worker.blocked import LoopWatch
from torpor.worker.bodies import Secrets
from torpor.worker.calls import Calls
from torpor.worker.coming import coming
from torpor.worker.committer import Committer
from torpor.worker.enrolling import enrol, make_known, serve, warn
from torpor.worker.executor import Executor
from torpor.worker.gate import Gate
from torpor.worker.lines import logger
from torpor.worker.linger import LINGER_SECONDS
from torpor.worker.news import News
from torpor.worker.outside import Outside
from torpor.worker.quiet import KEPT, SNAPSHOT_SECONDS, Quiet
from torpor.worker.renewals import Held, Renewals
from torpor.worker.standing import SHUT_SECONDS, Standing
from torpor.worker.stopping import Stopping
from torpor.worker.streams import Streams
from torpor.worker.threads import Threads
from torpor.worker.ticking import tick
from torpor.worker.tracing import stretch_of, tracing
from torpor.worker.unsettled import unsettled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.trace import TracerProvider

    from torpor.core.commit import Proposal
    from torpor.errors import LeaseLost
    from torpor.sdk.app import Flow
    from torpor.sdk.schedules import Schedule
    from torpor.store.protocol import LifeLock, Listener, Store
    from torpor.store.rows import WorkerRow
    from torpor.worker import roles
    from torpor.worker.enrolling import Served
    from torpor.worker.tracing import Tracing

TICK_SECONDS = 1.0
CLAIM_AT_ONCE = 200
CLAIM_CONTENDED = 50
"""At most so many runs in one claim; fewer while other processes wait for their turn to write (G20)."""
CONCURRENCY = 500
THREADS = 32
DRAIN_SECONDS = 30.0


class Worker:
    """One worker on one store. `await worker.run()` works until `stop()` or, with `until_idle`, until nothing is left."""

    def __init__(  # noqa: PLR0913 - what a worker can be told
        self,
        store: Store,
        flows: Mapping[str, Flow],
        *,
        name: str = "",
        concurrency: int = CONCURRENCY,
        lease_seconds: float = LEASE_SECONDS,
        threads: int = THREADS,
        drain_seconds: float = DRAIN_SECONDS,
        shut_seconds: float = SHUT_SECONDS,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
        until_idle: bool = False,
        tags: Sequence[str] = (),
        only_tags: bool = False,
        tracer_provider: TracerProvider | None = None,
        secret: Callable[[str], str | None] = lambda name: os.environ.get(f"TORPOR_SECRET_{name.upper()}"),
    ) -> None:
        """Take nothing yet. `concurrency` runs at once; plain functions run in `threads`.

        Runs that were started with a tag are taken only if it is among `tags`, runs without one unless `only_tags`.
        Spans go to `tracer_provider`, else to the process's own OpenTelemetry provider if it has one at the start.
        """
        self.store = store
        self.flows = dict(flows)
        self.schedules: Mapping[str, tuple[Flow, Schedule]] = {}
        self.name = name or f"w{entropy.token_hex(2)}"
        self.number = 0
        self.concurrency = concurrency
        self.lease_seconds = lease_seconds
        self.until_idle = until_idle
        self.linger_seconds = LINGER_SECONDS
        """How long a run that can only wait keeps its lease."""
        self.lingering: set[roles.Linger] = set()
        self.renewing: type[Renewals] = Renewals
        """What keeps the leases: a thread, or what takes its place where one thread does everything."""
        self.shut_seconds, self.snapshot_seconds = shut_seconds, snapshot_seconds
        self.clocks, self.registry = rouse.Clocks(), rouse.process_registry
        self.detectors: Sequence[rouse.Detector] | None = None
        """Where and how it is seen that this process was away, and who is told; None: `rouse.default_detectors`."""
        self.secrets = Secrets(secret)
        self.log = logger("worker", struck=self.secrets.struck, worker=self.name)
        self.executors: dict[int, Executor] = {}
        self.others_wait = False
        self.on_due: Callable[[int], None] = _nobody
        """Told of the due time of each run that is put away: the waker's business."""
        self.on_event: Callable[[str, roles.Executor, State], None] = _nobody
        """Told when a run is taken up, put away or lost: for `torpor dev` and the demo."""
        self.look_now = asyncio.Event()
        """Set by whoever believes that this process was away: then the tick does not wait for its second."""
        self.ready = asyncio.Event()
        """Set once the worker is known to the store and claims."""
        self._tags = [*dict.fromkeys(tags)] if only_tags else ["", *dict.fromkeys(tags)]
        self._served: dict[int, Served] = {}
        self._wake = asyncio.Event()
        self.stopping = Stopping(drain_seconds, lambda: bool(self.unsettled) or self._quiet.keeps)
        self._tenant = 0
        self._time = (0, 0.0)
        self._threads = Threads(threads, "torpor-step")
        self._provider = tracer_provider
        self._tracing: Tracing | None = None
        self._closing: list[Callable[[], None]] = []

    # a life

    async def run(self) -> None:
        """Work. Raises what the store says at the start; later troubles of the store are waited out."""
        self.loop = asyncio.get_running_loop()
        self.life: LifeLock = await asyncio.to_thread(self.store.life_lock, self.name)
        try:
            await self._begin()
        except BaseException:
            self.life.release()
            raise
        ticks = asyncio.create_task(self._tick())
        try:
            await self._claim_loop()
            await self._drain()
        finally:
            self.standing.end_copy()
            ticks.cancel()
            await self._end()

    async def _begin(self) -> None:
        own = self.detectors if self.clocks == rouse.Clocks() else None  # they are for the machine's clocks
        about = self.registry, self.shut_seconds, self.stopping, own
        limits = rouse.Limits(tick_seconds=TICK_SECONDS)
        self.standing: Standing = Standing(self.store, self.life, limits, self.clocks, *about)
        self.standing.recheck, self.standing.on_copy, self.standing.log = self._recheck, self._end_copy, self.log
        self.committer = Committer(self.store, self.standing, lease_micros=clock.micros(self.lease_seconds))
        self.streams = Streams(self.store, self.standing)
        self.gate = Gate(self.store, self.standing)
        self.calls = Calls(self._threads)
        self.outside = Outside(self)
        self._quiet: Quiet = Quiet(self, self.snapshot_seconds)
        self._news = News(self.store, self.loop, self.executors, self.outside.spawn)
        alive = await asyncio.to_thread(self._alive)
        self._served = await self.store.transact(serve, self.flows, self._tags, alive)
        await make_known(self.store, self.schedules, self.log)
        self.number, now, self.token_key = await self.store.transact(
            enrol, self.name, self.life.name, list(self._served)
        )
        self.saw_time(now)
        self._tracing = tracing(self._provider, self.store, self.token_key)
        listener: Listener = self.store.listen(self._hint, without=TOPIC)
        watch, seconds = LoopWatch(self.executors.values), self.lease_seconds
        renewing = self.renewing
        self._renewals = renewing(self.store, self.number, self._held, self._news.renewed, watch, lease_seconds=seconds)
        self._renewals.start()
        self._quiet.begin(self.registry)
        self._closing = [listener.close, self._renewals.stop, self._quiet.end, self.standing.leave]
        warn(self.flows.values(), self.log)
        self.ready.set()

    def _alive(self) -> frozenset[int]:
        rows: list[WorkerRow] = self.store.transact_now(lambda tx: tx.workers())
        return frozenset(row.id for row in rows if self.store.prove_death(row) is Proof.NONE)

    async def _end(self) -> None:
        self.stopping.ask()
        for executor in list(self.executors.values()):
            executor.lost(self.standing.gone or "the worker ended")
        for close in self._closing:
            await asyncio.to_thread(close)
        letting_go = not self.standing.gone and not self.outside.acting
        if letting_go:
            try:
                await self.store.transact(lambda tx: tx.drop_workers([self.number]))
            except StoreError as error:
                self.log.warning("the worker's row stays until its death is proven", error=error.message)
        if letting_go or self.standing.gone:
            self.life.release()  # otherwise the process keeps it: an effect still acts, so its holder is not gone
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _end_copy(self, why: str) -> None:
        """End a copy of this process on the spot: nothing of the author's and nothing of the original's is touched (G2)."""
        for executor in self.executors.values():
            self.log.warning("lease lost", run=executor.name, why=why, epoch=executor.lease.epoch, head=executor.head)
        self.log.error("fenced", why=why, pid=os.getpid())
        os._exit(1)

    def wake(self) -> None:
        """Look for ready runs at once."""
        self._wake.set()

    def stop(self) -> None:
        """Take no more runs, drain, end. May be called from a signal's callback on the loop."""
        self.stopping.ask()
        self._wake.set()

    # claiming

    async def _claim_loop(self) -> None:
        while not self.stopping.asked and not self.standing.gone:
            self._wake.clear()
            taken = await self._claim()
            free = self.concurrency - len(self.executors)
            if taken and free > 0:
                await asyncio.sleep(0)
                continue
            if self.until_idle and not self.executors and not taken and not await self._soon():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._wake.wait()

    async def _claim(self) -> int:
        most = CLAIM_CONTENDED if self.store.contended else CLAIM_AT_ONCE
        free = min(self.concurrency - len(self.executors), most)
        if free <= 0 or self.standing.pausing:
            return 0
        if not (self.standing.ok() or await self.stopping.unless_asked(self.standing.restore())):
            return 0
        if not self.standing.ok():
            return 0  # a snapshot shut the gate since everything was checked
        with self.standing.sending.of("a claim"):
            return await self._claim_now(free)

    async def _claim_now(self, free: int) -> int:
        micros = clock.micros(self.lease_seconds)
        try:
            claimed, blobs = await self.store.transact(
                leases.claim, self.number, list(self._served), free, entropy.randbits(62), self._tenant, micros
            )
        except StoreUnavailable as error:
            self.log.warning("cannot claim", error=error.message)
            return 0
        parents = await self._tracing.parents(claimed) if self._tracing is not None else {}
        for one in claimed:
            if (before := self.executors.get(one.run.id)) is not None:  # it was taken away, and nothing had said so yet
                before.lost("its lease ended, and this worker claimed the run again")
            served = self._served[one.run.program]
            executor = Executor(self, one, served.flow, served.version, blobs)
            if self._tracing is not None:
                told = stretch_of(executor.name, served.flow, served.version, self.name)
                executor.trace = self._tracing.stretch(one, told, parents.get(one.run.id, ""), executor.bodies.struck)
            self.executors[one.run.id] = executor
            self._tenant = one.run.tenant
            self.on_event("awake", executor, State.RUNNING)
            self.loop.call_soon(executor.start)
        for lingering in list(self.lingering) if not self.room else ():
            lingering.cut()
        return len(claimed)

    async def _soon(self) -> bool:
        until = self.now() + 2 * TICK_SECONDS * 1e6
        return await coming(self.store, list(self._served), worker=self.number, until=until)

    @property
    def room(self) -> bool:
        """Whether another run could be taken up."""
        return len(self.executors) < self.concurrency

    # what happens to executors

    def left(self, executor: roles.Executor, state: State, proposal: Proposal) -> None:
        """Take note that a run was put away or ended, with its lease given up."""
        self._forget(executor)
        if executor.trace is not None:
            executor.trace.end(state.word)
        if state is State.WAITING and proposal.due_at is not None:
            self.on_due(proposal.due_at)
        self.on_event("left", executor, state)

    def dropped(self, executor: roles.Executor, error: LeaseLost) -> None:
        """Take note that a run was lost."""
        del error
        self._forget(executor)
        if executor.trace is not None:
            executor.trace.end("lost")
        self.on_event("lost", executor, State.RUNNING)

    def _forget(self, executor: roles.Executor) -> None:
        if not self.room or self.until_idle or self.stopping.asked:
            self._wake.set()  # a worker with room has taken all that was ready; what comes is hinted at, and polled for
        if self.executors.get(executor.run.id) is executor:
            del self.executors[executor.run.id]

    def _hint(self, topic: str) -> None:
        """Hear a hint, in the listener's thread."""
        try:
            self.loop.call_soon_threadsafe(self._heard, topic)
        except RuntimeError:
            return  # the loop is closed

    def _heard(self, topic: str) -> None:
        if topic == "ready":
            self._wake.set()
        elif topic.startswith("run:"):
            executor = self.executors.get(int(topic[4:]))
            if executor is not None:
                self.look_at(executor)

    def look_at(self, executor: roles.Executor) -> None:
        """Read soon what the store has for a run."""
        self._news.look_at(executor.run.id)

    # renewals and ticks

    def _held(self) -> Sequence[Held]:
        return [(e.run.id, e.lease.token, e.lease.epoch) for e in list(self.executors.values())]

    async def _recheck(self) -> None:
        """Renew everything now, after an interruption, and drop what is lost."""
        while True:
            try:
                await asyncio.to_thread(self._renewals.now)
                return
            except StoreUnavailable:
                await asyncio.sleep(TICK_SECONDS / 4)

    async def _tick(self) -> None:
        await tick(self, TICK_SECONDS)

    # drain

    async def _drain(self) -> None:
        """Give everything back: at once what can be, after its effects what acts, within `drain_seconds`."""
        self.stopping.ask()
        if self.standing.gone:
            return
        for executor in list(self.executors.values()):
            executor.drain()
        try:
            async with asyncio.timeout(self.stopping.left):
                while self.executors:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            await self._end_shut()
            names = [executor.name for executor in self.executors.values()]
            if names and not self.standing.gone:
                said = KEPT if self._quiet.keeps else "effects were still running at the end of the drain"
                self.log.warning(said, runs=names)

    async def _end_shut(self) -> None:
        """Let a shut gate, which is given up now, say why; but wait for no store that is away."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                _ = self.standing.ok() or await self.standing.restore()

    @property
    def unsettled(self) -> list[str]:
        """The runs of which something would be lost if this worker were gone now: what a drain waits for."""
        return [executor.name for executor in self.executors.values() if unsettled(executor)]

    # services for executors

    def now(self) -> int:
        """Return the store's time, as far as it is known to have come: never ahead of the store's clock."""
        at, seen = self._time
        return at + int((clock.monotonic() - seen) * 1_000_000)

    def saw_time(self, at: int) -> None:
        """Take note of the store's time, just read; commits of one batch tell the same moment."""
        if at != self._time[0]:
            self._time = (at, clock.monotonic())

    def program_number(self, program: int) -> int:
        """Return the number of the present version of a program that is served, under the same tag."""
        old = self._served[program]
        present = old._replace(version=old.flow.version)
        return next(number for number, served in self._served.items() if served == present)


def _nobody(*_news: object) -> None:
    """Nobody is interested."""
