"""A lab on the store of a test, and a store in front of it whose faults are made by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from tests.worker.counter import COUNTER
from torpor.errors import StoreUnavailable
from torpor.store.protocol import Lane
from torpor.testing import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.stores import Moment
    from torpor import App
    from torpor.store.protocol import Store

T = TypeVar("T")


def on(
    store: Store, moment: Moment, app: App, check: Callable[[Lab], Coroutine[Any, Any, None]], **options: Any
) -> None:
    """Run a check in a lab on a store, with a fresh counter."""

    async def main() -> None:
        async with Lab(app, store=store, clock=moment, **options) as lab:
            await check(lab)

    COUNTER.clear()
    asyncio.run(main())


class FaultyStore:
    """A store that loses answers, is away, or says no, when its `fault` says so.

    `fault(op, args)` is asked before each transaction: `None` lets it pass, `lost` does it and loses the answer, `away`
    does not do it, an exception is raised inside it.
    """

    def __init__(self, store: Store) -> None:
        """Begin without faults."""
        self._store = store
        self.fault: Callable[[Any, tuple[Any, ...]], str | Exception | None] = lambda op, args: None
        self.faults = 0

    def __getattr__(self, name: str) -> Any:
        """Be the store for everything else."""
        return getattr(self._store, name)

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Run a transaction, or do not."""
        fault = self.fault(op, args)
        if fault is None:
            return await self._store.transact(op, *args, lane=lane, **more)
        self.faults += 1
        if isinstance(fault, Exception):
            await self._store.transact(self._raising, op, fault, args, more, lane=lane)
        if fault == "lost":
            await self._store.transact(op, *args, lane=lane, **more)
        error = StoreUnavailable(f"made so by the test: {fault}")
        error.answer_lost = fault == "lost"
        raise error

    @staticmethod
    def _raising(tx: Any, op: Any, fault: Exception, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        op(tx, *args, **more)
        raise fault


def times(number: int, wanted: Any, fault: str | Exception) -> Callable[[Any, tuple[Any, ...]], str | Exception | None]:
    """Return a fault for the first `number` transactions of an operation."""
    left = [number]

    def ask(op: Any, args: tuple[Any, ...]) -> str | Exception | None:
        del args
        if op is not wanted or left[0] == 0:
            return None
        left[0] -= 1
        return fault

    return ask
