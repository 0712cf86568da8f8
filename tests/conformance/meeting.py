"""Making two transactions meet at one place, in a chosen order."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.store.protocol import Store, Tx

T = TypeVar("T")


class Held(Generic[T]):
    """A transaction that does its first part, waits to be let go, and does the rest. `tries` counts how often it ran."""

    def __init__(self, store: Store, first: Callable[[Tx], T], rest: Callable[[Tx], T] | None = None) -> None:
        """Start it in a thread, and return once its first part is done."""
        self.tries = 0
        self._done: Future[T] = Future()
        self._there, self._go = threading.Event(), threading.Event()

        def op(tx: Tx) -> T:
            self.tries += 1
            value = first(tx)
            self._there.set()
            assert self._go.wait(PATIENCE_SECONDS)
            return value if rest is None else rest(tx)

        self._thread = threading.Thread(target=_settle, args=(self._done, lambda: store.transact_now(op)))
        self._thread.start()
        assert self._there.wait(PATIENCE_SECONDS)

    def let_go(self) -> None:
        """Let the rest happen."""
        self._go.set()

    def result(self) -> T:
        """Let the rest happen, and return what the operation returned."""
        self.let_go()
        self._thread.join(PATIENCE_SECONDS)
        return self._done.result(0)


class Beside(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        """Start it."""
        self._done: Future[T] = Future()
        self._thread = threading.Thread(target=_settle, args=(self._done, call))
        self._thread.start()

    def result(self) -> T:
        """Wait for what it returns."""
        self._thread.join(PATIENCE_SECONDS)
        return self._done.result(0)


def _settle(done: Future[T], call: Callable[[], T]) -> None:
    try:
        done.set_result(call())
    except BaseException as raised:  # noqa: BLE001 - it belongs to whoever asks for the result
        done.set_exception(raised)
