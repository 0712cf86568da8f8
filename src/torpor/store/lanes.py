"""A lane: a thread, or a few, running a store's transactions one after another.

A database call blocks, so it leaves the event loop; a lane is leaner than an executor (one queue, one wake-up of the
loop per answer), and whoever shares a lane shares a connection, so prepared statements and page caches stay warm.

A call that blocks for good (a turn to write that a frozen process holds) cannot be interrupted. `give_up` answers those
who wait in its stead; what the call does in the end is no answer any more, so it must see to it that it does nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _Call:
    """A call and whoever waits for its answer, which is given once."""

    __slots__ = ("_call", "_tell")

    def __init__(self, call: Callable[[], Any], tell: Callable[[Any, BaseException | None], None]) -> None:
        self._call = call
        self._tell = [tell]

    def __call__(self) -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = self._call()
        except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits for the answer
            error = raised
        self.answer(value, error)

    def answer(self, value: Any, error: BaseException | None) -> None:
        """Give the answer, unless one was given: taking the only element out of a list is atomic."""
        try:
            tell = self._tell.pop()
        except IndexError:
            return
        tell(value, error)


class Thread:
    """A thread, or `count` of them, and their queue. Calls start in the order they came."""

    def __init__(self, name: str, *, count: int = 1) -> None:
        """Start the threads at first use, so that an unused lane costs nothing."""
        self._name = name
        self._count = count
        self._reset()

    def _reset(self) -> None:
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._current: _Call | None = None
        self.stuck = False

    def _start(self) -> None:
        with self._lock:
            if not self._threads:
                self._threads = [
                    threading.Thread(target=self._loop, args=(self._queue,), name=self._name, daemon=True)
                    for _ in range(self._count)
                ]
                for thread in self._threads:
                    thread.start()

    def _loop(self, queue: SimpleQueue[_Call | None]) -> None:
        while (call := queue.get()) is not None:
            self._current = call
            call()
            self._current, self.stuck = None, False
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

        def tell(value: T | None, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(done, value, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        self._put(_Call(call, tell))

    def run_now(self, call: Callable[[], T]) -> T:
        """Do the same for a caller without a loop. Blocking."""
        answer: Future[T] = Future()

        def tell(value: T, error: BaseException | None) -> None:
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        self._put(_Call(call, tell))
        return answer.result()

    def put(self, call: Callable[[], None]) -> None:
        """Run `call` in a thread of the lane, without an answer. It must not raise."""
        self._put(_Call(call, _nobody))

    def _put(self, call: _Call) -> None:
        if self._pid != os.getpid():
            self._reset()  # a forked child has no threads, and its parent's calls are not its own
        if not self._threads:
            self._start()
        self._queue.put(call)

    def give_up(self, error: Callable[[], BaseException]) -> None:
        """Answer the call that blocks, and every one behind it, with an error each. For a lane of one thread."""
        self.stuck = True
        current, ends = self._current, 0
        if current is not None:
            current.answer(None, error())
        try:
            while True:
                call = self._queue.get_nowait()
                if call is None:
                    ends += 1
                else:
                    call.answer(None, error())
        except Empty:
            for _ in range(ends):
                self._queue.put(None)

    def stop(self) -> None:
        """End the threads once everything before is done, except one that is stuck: it ends with the process. Blocking."""
        if self._pid != os.getpid():
            return
        threads, self._threads = self._threads, []
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            while thread is not threading.current_thread() and thread.is_alive() and not self.stuck:
                thread.join(_LOOK_SECONDS)


class NoThread(Thread):
    """A lane that runs its calls in the thread of whoever asks, for a process that does one thing at a time."""

    def run_now(self, call: Callable[[], T]) -> T:
        """Run `call` here."""
        return call()

    def _put(self, call: _Call) -> None:
        call()


class Watch:
    """A thread that looks once a second. Its own thread, because what it looks for has stopped all the others."""

    def __init__(self, look: Callable[[], None]) -> None:
        """Start it."""
        self._look = look
        self._pid = os.getpid()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="torpor-watch", daemon=True)
        self._thread.start()

    @property
    def mine(self) -> bool:
        """Whether it runs in this process: a forked child has no threads."""
        return self._pid == os.getpid()

    def _loop(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._look()

    def stop(self) -> None:
        """End it. Blocking."""
        self._over.set()
        if self.mine:
            self._thread.join()


_LOOK_SECONDS = 1.0
"""How often it is looked whether something got stuck."""


def _nobody(value: object, error: object) -> None:
    """Nobody waits for an answer."""
