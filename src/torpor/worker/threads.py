"""Threads for authors' functions that block.

Unlike the standard library's pool they hold up nobody: a process ends although one of them is blocked (in a read from a
host that died, say), and one whose caller gave up waiting does not count any more, so that others still get a thread.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_Work = tuple[Future[Any], "Callable[[], Any]"]


class Lent(Executor):
    """A worker's threads, lent to one call: it is known which of them go on when the call is over."""

    def __init__(self, threads: Threads) -> None:
        """Begin with none."""
        self._threads = threads
        self._begun: list[Future[Any]] = []

    def submit(self, function: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        """Call a function in a thread."""
        future = self._threads.submit(function, *args, **more)
        self._begun.append(future)
        return future

    def give_up(self) -> list[Future[Any]]:
        """Wait for none of them any more; return what still runs, for nobody can stop a thread."""
        for future in self._begun:
            if not future.done():
                self._threads.give_up(future)
        return [future for future in self._begun if future.running()]


class Threads(Executor):
    """Up to `most` threads, started when they are needed. Calls start in the order they came."""

    def __init__(self, most: int, name: str) -> None:
        """Start none yet."""
        self._most = most
        self._name = name
        self._started = 0
        self._given_up = 0
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        """Call a function in a thread."""
        future: Future[T] = Future()
        self._queue.put((future, partial(function, *args, **more)))
        if not self._idle.acquire(blocking=False):
            self._start()
        return future

    def give_up(self, future: Future[Any]) -> None:
        """Say that nobody waits for a call any more: if it runs, its thread counts no more until it ends."""
        if future.cancel():
            return
        with self._lock:
            self._given_up += 1
        future.add_done_callback(self._came_back)
        if not self._queue.empty():
            self._start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - Executor's
        """Start nothing more. What runs is not waited for, whatever is asked."""
        del wait
        while cancel_futures:
            try:
                work = self._queue.get_nowait()
            except Empty:
                break
            if work is not None:
                work[0].cancel()
        self._queue.put(None)

    def _came_back(self, _: Future[Any]) -> None:
        with self._lock:
            self._given_up -= 1

    def _start(self) -> None:
        with self._lock:
            if self._started - self._given_up >= self._most:
                return
            self._started += 1
            number = self._started
        threading.Thread(target=self._work, name=f"{self._name}-{number}", daemon=True).start()

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            future, call = work
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the result
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del work, future, call  # a finished call must not keep its arguments alive until the next one comes
            self._idle.release()
        self._queue.put(None)  # for the next one
