"""A lab on the store of a test, and a store in front of it whose faults are made by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from tests.worker.counter import COUNTER
from torpor import rouse
from torpor.client import Client
from torpor.engine.commit import commit
from torpor.errors import StoreUnavailable
from torpor.store.protocol import Lane
from torpor.testing import Lab, Place
from torpor.testing.mortal import described

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tests.stores import Moment
    from torpor import App
    from torpor.store.protocol import Store

T = TypeVar("T")


SHARES = {"postgres": (Place.AFTER,), "memory": (Place.BEFORE,)}
"""Where a flow is killed on which store; in a file it is killed at every point of every place."""


class QuickLab(Lab):
    """A lab that kills everywhere in a file, and elsewhere at a share of the places; the crash matrix has them all on all.

    A worker that dies takes the same way in memory as in a file, and a new one takes its time.
    """

    def every_crash(self, *given: Any, places: tuple[Place, ...] | None = None, **more: Any) -> AsyncIterator[Any]:
        """Kill at every point of a store's places."""
        kind = "memory" if getattr(self.store, "path", "") == ":memory:" else self.store.kind
        return super().every_crash(*given, places=SHARES.get(kind) if places is None else places, **more)


async def checkpoints(lab: Lab, run: str) -> list[int]:
    """Return the checkpoints that can be returned to, oldest first."""
    shown = await Client(lab.store).show(run)
    return [one.checkpoint for one in reversed(shown.history.checkpoints)]


class Hold:
    """A transaction that is held back before it is sent, until it is released."""

    def __init__(self) -> None:
        """Hold what comes."""
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


class HeldAnswer(Hold):
    """A transaction that is done, and whose answer is held back until it is released."""


Fault: TypeAlias = str | Exception | Hold | None


def on(
    store: Store, moment: Moment, app: App, check: Callable[[Lab], Coroutine[Any, Any, None]], **options: Any
) -> None:
    """Run a check in a lab on a store, with a fresh counter."""

    async def main() -> None:
        async with QuickLab(app, store=store, clock=moment, **{"patience_seconds": PATIENCE_SECONDS, **options}) as lab:
            await check(lab)

    COUNTER.clear()
    asyncio.run(main())


async def until(there: Callable[[], Any]) -> None:
    """Let the loop go round until something is there: what has no event, and some of it is set by other threads."""
    loop = asyncio.get_running_loop()
    while not there():
        round_over = loop.create_future()
        loop.call_soon(round_over.set_result, None)
        await round_over


def asleep(worker: Any) -> None:
    """Let a worker's machine sleep for a minute; nobody has noticed yet."""
    clocks = ClocksByHand()
    limits = rouse.Limits(tick_seconds=1.0)
    worker.standing._watcher = rouse.Watcher(limits, clocks=clocks.clocks, registry=worker.registry)  # noqa: SLF001 - in mid-life
    clocks.suspend(60)


def no_fault(_op: Any, _args: tuple[Any, ...]) -> Fault:
    """Let everything pass."""
    return None


class FaultyStore:
    """A store that loses answers, is away, or says no, when its `fault` says so.

    `fault(op, args)` is asked before each transaction: `None` lets it pass, `lost` does it and loses the answer, `away`
    does not do it, an exception is raised inside it, a `Hold` holds it back, a `HeldAnswer` its answer.
    """

    def __init__(self, store: Store) -> None:
        """Begin without faults."""
        self._store = store
        self.fault: Callable[[Any, tuple[Any, ...]], Fault] = no_fault
        self.faults = 0
        self._going: set[asyncio.Task[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        """Be the store for everything else."""
        return getattr(self._store, name)

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Run a transaction, or do not."""
        fault = self.fault(op, args)
        if fault is None:
            return await self._store.transact(op, *args, lane=lane, **more)
        self.faults += 1
        if isinstance(fault, HeldAnswer):
            value = await self._store.transact(op, *args, lane=lane, **more)
            fault.reached.set()
            await fault.released.wait()
            return value
        if isinstance(fault, Hold):
            fault.reached.set()
            await fault.released.wait()
            return await self._store.transact(op, *args, lane=lane, **more)
        if isinstance(fault, Exception):
            await self._store.transact(self._raising, op, fault, args, more, lane=lane)
        if fault == "lost":
            await self._store.transact(op, *args, lane=lane, **more)
        error = StoreUnavailable(f"made so by the test: {fault}")
        error.answer_lost = fault == "lost"
        raise error

    def transact_then(
        self, done: Callable[[Any, BaseException | None], None], op: Callable[..., Any], /, *args: Any, **more: Any
    ) -> None:
        """Do the same, and call `done(value, error)` from a callback of the running loop."""

        def answered(going: asyncio.Task[Any]) -> None:
            if not going.cancelled():
                error = going.exception()
                done(None if error is not None else going.result(), error)

        going = asyncio.get_running_loop().create_task(self.transact(op, *args, **more))
        self._going.add(going)
        going.add_done_callback(self._going.discard)
        going.add_done_callback(answered)

    @staticmethod
    def _raising(tx: Any, op: Any, fault: Exception, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        if op is not commit:  # one statement of a commit may be a transaction of its own: nothing may come after it
            op(tx, *args, **more)
        raise fault


def times(number: int, wanted: Any, fault: Fault) -> Callable[[Any, tuple[Any, ...]], Fault]:
    """Return a fault for the first `number` transactions of an operation."""
    left = [number]

    def ask(op: Any, args: tuple[Any, ...]) -> Fault:
        del args
        if op is not wanted or left[0] == 0:
            return None
        left[0] -= 1
        return fault

    return ask


def commits_of(*words: str) -> Callable[[Any, tuple[Any, ...]], bool]:
    """Return whether a transaction is a commit whose entries are of these kinds, `consumed go`, in this order."""

    def fits(op: Any, args: tuple[Any, ...]) -> bool:
        return op is commit and described(args[0]) == ", ".join(words)

    return fits


def once(fits: Callable[[Any, tuple[Any, ...]], bool], fault: Fault) -> Callable[[Any, tuple[Any, ...]], Fault]:
    """Return a fault for the first transaction that fits."""
    left = [1]

    def ask(op: Any, args: tuple[Any, ...]) -> Fault:
        if left[0] == 0 or not fits(op, args):
            return None
        left[0] -= 1
        return fault

    return ask
