"""A laptop in one process: a worker and a waker on clocks that are moved by hand, and a record of what they ask the store."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from torpor.client import Client
from torpor.runtime import Process
from torpor.store.protocol import Lane
from torpor.waker import TIMERS, Waker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.stores import Place
    from torpor import App
    from torpor.core.run import State
    from torpor.store.protocol import Store
    from torpor.worker import roles

T = TypeVar("T")


class Watched:
    """A store that remembers what was asked of it since `forget`, in the order in which it was asked."""

    def __init__(self, store: Store) -> None:
        """Watch a store."""
        self._store = store
        self.asked: list[str] = []
        self.fired: list[int] = []
        """How many timers each look of the waker fired."""
        self.looked = asyncio.Event()
        """Set whenever the waker has settled slots of schedules."""

    def __getattr__(self, name: str) -> Any:
        """Be the store for everything else."""
        return getattr(self._store, name)

    def forget(self) -> None:
        """Begin anew: what was asked before and is answered later does not count."""
        self.asked, self.fired = [], []

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Remember, and do it."""
        fired = self._note(op)
        found: Any = await self._store.transact(op, *args, lane=lane, **more)
        if args and args[0] is TIMERS.op:
            fired.append(found[0].done)
        if args and isinstance(args[0], partial):  # what the waker carries out after it worked out slots
            self.looked.set()
        return cast("T", found)

    def transact_now(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Remember, and do it."""
        self._note(op)
        return self._store.transact_now(op, *args, lane=lane, **more)

    def transact_then(
        self, done: Callable[[Any, BaseException | None], None], op: Callable[..., Any], /, *args: Any, **more: Any
    ) -> None:
        """Remember, and do it."""
        self._note(op)
        self._store.transact_then(done, op, *args, **more)

    def _note(self, op: Callable[..., Any]) -> list[int]:
        self.asked.append(op.__name__)
        return self.fired


class Laptop:
    """A machine whose lid is closed by the test. Its store's clock goes on meanwhile."""

    def __init__(self, place: Place, app: App, **options: Any) -> None:
        """Install torpor on it, with these options of `Worker`."""
        self._place = place
        self._clocks = ClocksByHand()
        self.store = Watched(place.open())
        self.process = Process(self.store, app, **options)
        self.process.worker.clocks = self._clocks.clocks
        self.process.worker.on_event = self._happened
        self.process.waker = Waker(self.store, clocks=self._clocks.clocks)
        self.process.worker.on_due = self.process.waker.soon
        self.client = Client(place.open())
        self.left = asyncio.Event()
        """Set when a run was put away."""

    @asynccontextmanager
    async def on(self) -> AsyncIterator[None]:
        """Switch it on, and off at the end."""
        working = asyncio.create_task(self.process.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.process.worker.ready.wait()
            yield
            self.process.worker.stop()
            await working

    def pass_time(self, seconds: float) -> None:
        """Let time go by while everything runs. Less than the watchers' limits: they look every second of real time."""
        self._clocks.pass_time(seconds)
        self._place.moment.advance(seconds)

    def close_lid(self, seconds: float) -> None:
        """Sleep: the monotonic clock stands still, the wall clock and the store's do not."""
        self._clocks.suspend(seconds)
        self._place.moment.advance(seconds)

    async def looked(self) -> None:
        """Return once the waker has settled slots."""
        await self.store.looked.wait()
        self.store.looked.clear()

    def _happened(self, event: str, executor: roles.Executor, state: State) -> None:
        del executor, state
        if event == "left":
            self.left.set()
