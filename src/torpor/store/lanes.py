"""A lane: one thread that runs a store's transactions one after another.

A database call blocks, so it leaves the event loop; a lane is leaner than an executor (one queue, one wake-up of the
loop per answer), and whoever shares a lane shares a connection, so prepared statements and page caches stay warm.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Thread:
    """One thread and its queue. Calls run in the order they came."""

    def __init__(self, name: str) -> None:
        """Start the thread at first use, so that an unused lane costs nothing."""
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        while (call := self._queue.get()) is not None:
            call()
            del call  # a finished call must not keep its arguments alive until the next one comes

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` in the thread and return what it returns, or raise what it raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(value: T | None, error: BaseException | None) -> None:
            if answer.cancelled():
                return
            if error is None:
                answer.set_result(value)  # type: ignore[arg-type]
            else:
                answer.set_exception(error)

        def work() -> None:
            value: T | None = None
            error: BaseException | None = None
            try:
                value = call()
            except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits for the answer
                error = raised
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        self.put(work)
        return await answer

    def run_now(self, call: Callable[[], T]) -> T:
        """Do the same for a caller without a loop. Blocking."""
        answer: Future[T] = Future()

        def work() -> None:
            try:
                answer.set_result(call())
            except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits for the answer
                answer.set_exception(raised)

        self.put(work)
        return answer.result()

    def put(self, call: Callable[[], None]) -> None:
        """Run `call` in the thread, without an answer. It must not raise."""
        if self._thread is None:
            self._start()
        self._queue.put(call)

    def stop(self, last: Callable[[], Any] | None = None) -> None:
        """Run `last` (closing a connection), then end the thread. Blocking."""
        if self._thread is None:
            return
        if last is not None:
            self.run_now(last)
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None
