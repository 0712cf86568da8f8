"""The lab: an app, a store and a worker in one process, a clock you move, and a worker you can kill at any step.

    async with testing.Lab(app) as lab:
        run = await lab.start(refund, Refund("A-1"))
        await lab.settle()                          # until nothing is ready or running
        await lab.approve("Refund A-1?", by="ada")
        assert await lab.result(run) == "refunded"

Nothing waits for real time: `settle` returns when the run can go no further, timers fall due when the clock is moved, and
`settle` looks again at events, never at intervals. The store is SQLite in memory unless another one is given.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from torpor.clock import SECOND, as_datetime
from torpor.core.ids import parse_run
from torpor.core.lease import Proof
from torpor.core.run import State
from torpor.engine import runs, waits
from torpor.errors import NeedsPerson, NotFound, RunCancelled, RunFailed, UsageError
from torpor.store import values
from torpor.store.opening import open_store
from torpor.store.protocol import Lane
from torpor.store.rows import Kept, NewSignal, RunRow
from torpor.testing import showing
from torpor.testing.clock import Clock, seconds_in
from torpor.testing.crashes import every_crash
from torpor.testing.deciding import Deciding
from torpor.testing.funding import limit_of
from torpor.testing.mortal import Place, Plan, mind_generators, mortal_tasks
from torpor.testing.run import Run
from torpor.testing.sweeping import going_on, names_of, next_due, sweep
from torpor.testing.worker import LabWorker
from torpor.worker.enrolling import make_known
from torpor.worker.lines import logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from datetime import datetime, timedelta
    from decimal import Decimal

    from torpor.sdk.app import App
    from torpor.store.protocol import Store
    from torpor.testing.clock import MovedClock
    from torpor.testing.crashes import Crash
    from torpor.worker.worker import Worker

PATIENCE_SECONDS = 60.0


class Lab(Deciding):
    """One app on one store. See the top of this file."""

    def __init__(
        self,
        app: App,
        *,
        store: Store | None = None,
        clock: MovedClock | None = None,
        secrets: Mapping[str, str] | None = None,
        schedules: bool = False,
        patience_seconds: float = PATIENCE_SECONDS,
        **options: Any,
    ) -> None:
        """`store` needs the `clock` it goes by. `patience_seconds` of real time is how long one step may take at most.

        With `schedules` the app's schedules start runs as the clock is moved. `secrets` are what `ctx.secret` finds;
        `options` are `Worker`'s (`concurrency`, `threads`, `lease_seconds`).
        Raises UsageError for a store without its clock.
        """
        if store is not None and clock is None:
            raise UsageError(
                "a lab with a store of its own needs that store's clock", hint="Lab(app, store=..., clock=...)"
            )
        self.app = app
        self.clock: MovedClock = clock or Clock()
        self.plan = Plan(Place.UNDISTURBED, 0)
        self.deaths = 0
        """How many workers of this lab were killed."""
        self._store = store
        self._own_store = store is None
        self._patience = patience_seconds
        self._schedules = schedules
        self._options = {"secret": dict(secrets or {}).get, **options}
        self._worker: LabWorker | None = None
        self._stirred = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Open the store and make the app's programs known."""
        loop = asyncio.get_running_loop()
        self._factory = loop.get_task_factory()
        loop.set_task_factory(mortal_tasks)
        mind_generators()
        if self._store is None:
            self._store = open_store(":memory:", clock=self.clock.now)
        self._loop = loop
        self._listener = self._store.listen(self._hint)
        named = [(flow.name, version, flow.source) for flow in self.app.flows.values() for version in flow.versions]
        await self.store.transact(runs.register, named)
        if self._schedules:
            await make_known(self.store, self.app.schedules, logger("lab"))
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the worker and, if it is the lab's own, the store."""
        try:
            await self._end_worker()
        finally:
            await asyncio.to_thread(self._listener.close)
            if self._own_store:
                await self.store.close()
            self._loop.set_task_factory(self._factory)

    @property
    def store(self) -> Store:
        """The store, open inside `async with`."""
        if self._store is None:
            raise UsageError("the lab is not open", hint="async with testing.Lab(app) as lab:")
        return self._store

    @property
    def now(self) -> datetime:
        """The moment of the lab's clock, UTC."""
        return as_datetime(self.clock.now())

    # what happens to runs

    async def start(
        self,
        flow: Callable[..., Any] | str,
        state: Any = None,
        *,
        key: str | None = None,
        budget: Decimal | str | int | None = None,
    ) -> Run:
        """Start a run; `key` finds it again, `budget` is its limit in dollars. Raises UsageError, UnstorableValue."""
        most = limit_of(budget)
        name = flow if isinstance(flow, str) else _name_of(self.app, flow)
        wanted = runs.Start(name, values.encode(state, path="state"), key, budget=most)
        started = (await self.store.transact(runs.start, [wanted]))[0]
        return Run(started.run_id, started.name)

    async def settle(self) -> None:
        """Work until nothing is ready or running: what is left waits for the clock, a signal or a person.

        Raises TimeoutError, saying what still runs, if a step takes longer than the lab's patience.
        """
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    self._stirred.clear()
                    await self._replace_the_dead()
                    await self.store.transact(sweep, await self._dead_workers())
                    if not await self.store.transact(going_on, lane=Lane.READ):
                        if self._worker is not None and await self._worker.mortal.quiet():
                            continue
                        return
                    await self._work()
                    await self._stirred.wait()
        except TimeoutError:
            going = await self.store.transact(names_of)
            text = ", ".join(f"{name} is {state.word}" for name, state in going)
            raise TimeoutError(f"after {self._patience:g} s of real time {text or 'nothing is left to do'}") from None

    async def change(self) -> None:
        """Return once something may have changed in the store, for example by another lab's worker."""
        await self._stirred.wait()
        self._stirred.clear()

    def advance(self, duration: float | timedelta) -> None:
        """Move the clock on, by seconds or a timedelta; due timers fire at the next `settle`."""
        self.clock.advance(seconds_in(duration))

    async def pass_time(self, duration: float | timedelta) -> None:
        """Move the clock on from due time to due time, settling at each, as if somebody had waited."""
        end = self.clock.now() + round(seconds_in(duration) * SECOND)
        await self.settle()
        while (due := await self.store.transact(next_due)) is not None and due <= end:
            self.clock.advance(max(0, due - self.clock.now()) / SECOND)
            await self.settle()
        self.clock.advance((end - self.clock.now()) / SECOND)
        await self.settle()

    async def signal(self, run: Run, name: str, value: Any = None, *, key: str | None = None) -> bool:
        """Send a signal. False: its key was known, or the run has ended."""
        body = values.encode(value, path=f"the value of signal {name}")
        kept = await self.store.transact(waits.signal, [NewSignal(run.number, name, body, key)])
        if kept[0] is Kept.NO_RUN:
            raise NotFound(f"there is no run {run}")
        return kept[0] is Kept.NEW

    async def cancel(self, run: Run) -> None:
        """Ask a run to end as cancelled; it does at the next `settle`."""
        await self.store.transact(runs.cancel, run.number)

    # what became of them

    async def state(self, run: Run) -> str:
        """Return `ready`, `running`, `waiting`, `completed`, `failed` or `cancelled`."""
        return (await self._row(run)).word

    async def result(self, run: Run) -> Any:
        """Settle, moving the clock on while the run waits for nothing but time, and return its result.

        Raises RunFailed, RunCancelled, and NeedsPerson if it waits for a person or a signal.
        """
        await self.settle()
        while not (state := await self._row(run)).final:
            open_waits = await self.waits(run)
            blocked = [wait.title for wait in open_waits if wait.kind not in {"timer", "retry", "rate"}]
            due = min((wait.due_at for wait in open_waits if wait.due_at is not None), default=None)
            if blocked or due is None:
                raise NeedsPerson(f"{run} waits for: {', '.join(blocked) or 'nothing that time brings'}")
            self.clock.advance(max(0.0, (due - self.now).total_seconds()))
            await self.settle()
        last = (await self.journal(run))[-1]
        if state is State.CANCELLED:
            raise RunCancelled(f"{run} was cancelled")
        if state is State.FAILED:
            kind, detail = str(last.value["kind"]), str(last.value["detail"])
            hint = str(last.value.get("hint", ""))
            raise RunFailed(f"{run} failed: {kind}: {detail}", kind=kind, detail=detail, hint=hint)
        return last.value

    async def waits(self, run: Run) -> list[showing.Wait]:
        """Return what a run waits for, oldest first."""
        return await self.store.transact(showing.wait_list, run.number, as_datetime=as_datetime)

    async def journal(self, run: Run) -> list[showing.Line]:
        """Return a run's journal; each line can be printed."""
        return await self.store.transact(showing.lines, run.number)

    async def effects(self, run: Run) -> list[showing.Effect]:
        """Return what the journal knows of a run's effects."""
        return await self.store.transact(showing.effect_list, run.number)

    # crashes

    def crash(self, place: Place, point: int = 1, *, times: int = 1) -> None:
        """Plan to kill the worker when it comes to a place for the `point`-th time from now on.

        With `times` the workers that follow it are killed as well, each at its own `point`-th time.
        """
        self.plan = Plan(place, point, times)
        if self._worker is not None:
            self._worker.mortal.plan = self.plan

    async def worker(self) -> Worker:
        """Return the worker, started if there is none. `settle` does this by itself."""
        await self._replace_the_dead()
        return await self._work()

    async def drain(self) -> None:
        """Let the worker end as SIGTERM would; the next `settle` brings another."""
        await self._end_worker()

    async def kill(self) -> None:
        """Kill the worker now, if there is one; the next `settle` brings another."""
        if self._worker is not None:
            self._worker.kill()
        await self._replace_the_dead()

    def every_crash(
        self,
        flow: Callable[..., Any] | str,
        state: Any = None,
        *,
        drive: Callable[[Lab, Run], Awaitable[object]] | None = None,
        before: Callable[[], object] | None = None,
        places: tuple[Place, ...] | None = None,
    ) -> AsyncIterator[Crash[Lab]]:
        """Run a flow to its end once undisturbed, then once for every point at which its worker can be killed.

        Yields what happened each time, the undisturbed run first. `drive(lab, run)` does what people and the world do
        meanwhile; without it the run is settled, and time passes while it waits for nothing else. `before()` is called
        before each run. The worker that is killed is followed by another one.
        """
        return every_crash(self, flow, state, drive=drive, before=before, places=places)

    # inside

    def _hint(self, topic: str) -> None:
        del topic
        try:
            self._loop.call_soon_threadsafe(self._stirred.set)
        except RuntimeError:
            return  # the loop is closed

    async def _work(self) -> LabWorker:
        if self._worker is None:
            self._worker = LabWorker(self.store, self.app, self.clock, self.plan, self._stirred.set, **self._options)
            await self._worker.begin()
        return self._worker

    async def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.finish()

    async def _replace_the_dead(self) -> None:
        if self._worker is not None and self._worker.dead:
            self.deaths += 1
            await self._end_worker()

    async def _dead_workers(self) -> dict[int, Proof]:
        rows = await self.store.transact(lambda tx: tx.workers())
        own = self._worker.number if self._worker is not None else 0  # killed in this moment: not before it is buried
        found = {row.id: await asyncio.to_thread(self.store.prove_death, row) for row in rows if row.id != own}
        return {number: proof for number, proof in found.items() if proof is not Proof.NONE}

    async def _row(self, run: Run) -> State:
        rows: dict[int, RunRow] = await self.store.transact(lambda tx: tx.get_runs([run.number]))
        if run.number not in rows:
            raise NotFound(f"there is no run {run}")
        state: State = rows[run.number].state
        return state


def _name_of(app: App, function: Callable[..., Any]) -> str:
    for flow in app.flows.values():
        if flow.function is function:
            return flow.name
    raise UsageError(
        f"{getattr(function, '__name__', function)!r} is not a flow of this app", hint="@app.flow above it"
    )


def run_of(name: str) -> Run:
    """Return the run that a public id names."""
    return Run(parse_run(name)[1], name)
