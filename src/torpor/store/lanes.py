"""A lane: a thread, or a few, running a store's transactions one after another.

A database call blocks, so it leaves the event loop; a lane is leaner than an executor (one queue, one wake-up of the
loop per answer), and whoever shares a lane shares a connection, so prepared statements and page caches stay warm.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Thread:
    """A thread, or `count` of them, and their queue. Calls start in the order they came."""

    def __init__(self, name: str, *, count: int = 1) -> None:
        """Start the threads at first use, so that an unused lane costs nothing."""
        self._name = name
        self._count = count
        self._reset()

    def _reset(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def _start(self) -> None:
        with self._lock:
            if not self._threads:
                self._threads = [
                    threading.Thread(target=self._loop, args=(self._queue,), name=self._name, daemon=True)
                    for _ in range(self._count)
                ]
                for thread in self._threads:
                    thread.start()

    @staticmethod
    def _loop(queue: SimpleQueue[Callable[[], None] | None]) -> None:
        while (call := queue.get()) is not None:
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

        self.then(call, settle)
        return await answer

    def then(self, call: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Run `call` in the thread and then `done(value, error)` as a callback of the running loop: no task, no future."""
        loop = asyncio.get_running_loop()

        def work() -> None:
            value: T | None = None
            error: BaseException | None = None
            try:
                value = call()
            except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits for the answer
                error = raised
            try:
                loop.call_soon_threadsafe(done, value, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        self.put(work)

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
        """Run `call` in a thread of the lane, without an answer. It must not raise."""
        if self._pid != os.getpid():
            self._reset()  # a forked child has no threads, and its parent's calls are not its own
        if not self._threads:
            self._start()
        self._queue.put(call)

    def stop(self) -> None:
        """End the threads once everything before is done. Blocking."""
        if self._pid != os.getpid():
            return
        threads, self._threads = self._threads, []
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()
