"""A worker of a lab: it goes by the lab's clock, never lingers, and can be killed where its plan says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from torpor.testing.mortal import OWNER, Life, MortalStore, Place
from torpor.worker import guests
from torpor.worker.calls import Calls
from torpor.worker.worker import Worker

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable

    from torpor.sdk.app import App
    from torpor.sdk.steps import Definition, EffectContext
    from torpor.store.protocol import Store
    from torpor.testing.clock import MovedClock
    from torpor.testing.mortal import Plan


class LabWorker(Worker):
    """`begin` it, and either `finish` it, or end its `life`."""

    def __init__(
        self, store: Store, app: App, clock: MovedClock, plan: Plan, stirred: Callable[[], None], **options: Any
    ) -> None:
        """Take nothing yet. `stirred` is called whenever something may have changed."""
        self.end = Life(stirred)
        self.mortal = MortalStore(store, self.end, plan)
        super().__init__(self.mortal, app.flows, **options)
        self.linger_seconds = 0.0
        self._moved = clock
        self._stirred = stirred
        self._running: asyncio.Task[None] | None = None
        self.on_event = lambda *_news: stirred()

    def now(self) -> int:
        """Return the lab's moment."""
        return self._moved.now()

    async def begin(self) -> None:
        """Start working. Raises what the start raises."""
        token = OWNER.set(self.end)
        try:
            self._running = asyncio.get_running_loop().create_task(self.run())
        finally:
            OWNER.reset(token)
        ready = asyncio.ensure_future(self.ready.wait())
        await asyncio.wait([self._running, ready], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._running

    async def _begin(self) -> None:
        await super()._begin()
        self.calls = _LabCalls(self)

    def kill(self) -> None:
        """End its life here and now."""
        self.end.now()

    @property
    def dead(self) -> bool:
        """Whether it was killed."""
        return self.end.over

    async def finish(self) -> None:
        """Drain it, or bury it if it was killed."""
        if not self.dead:
            self.stop()
            if self._running is not None:
                await self._running
            await guests.left()
            await self.end.close_generators()
            return
        for executor in self.executors.values():
            executor.ended = True
        if self.end.transactions:
            await asyncio.wait(self.end.transactions)  # nothing of the dead may come after the living looked
        for close in self._closing:  # what it had registered in this process goes too
            await asyncio.to_thread(close)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.end.bury()
        if self.end.tasks:
            await asyncio.wait(self.end.tasks)


class _LabCalls(Calls):
    """Runs steps and effects, and kills the worker after one acted, if that is the plan."""

    def __init__(self, worker: LabWorker) -> None:
        super().__init__(worker._threads)  # noqa: SLF001 - the same worker's
        self._worker = worker

    def start(
        self,
        definition: Definition,
        values: dict[str, Any],
        context: EffectContext | None,
        done: Callable[[Any, BaseException | None], None],
        within: contextvars.Context | None = None,
    ) -> asyncio.Future[Any]:
        worker = self._worker

        def acted(result: Any, error: BaseException | None) -> None:
            if worker.dead:
                return
            if error is None and worker.mortal.plan.now(Place.ACTED, definition.name):
                worker.kill()
                return
            done(result, error)

        return super().start(definition, values, context, acted, within)
