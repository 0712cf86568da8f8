"""A token that is fetched once for all who ask, and anew in each life.

A copy holds the same access token and the same refresh token. Whoever refreshes first makes the other's worthless at many
issuers, and the one that slept holds an expired one without knowing. So a token is good only in the incarnation in which it was
fetched, and only while both the clock that ran through the sleep and the wall clock say so.
"""

from __future__ import annotations

import inspect
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from .incarnation import Incarnation, PerProcess, incarnation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

T = TypeVar("T")


def _boottime() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Kept(NamedTuple, Generic[T]):
    """A fetched value, and until when by each clock."""

    value: T
    born_in: Incarnation
    until_boottime: float
    until_wall: float


class Token(Generic[T]):
    """`token.get()`, or `await token.get_async()`, before each request. Never keep what it gives.

    `fetch` returns the token and for how many seconds it is good; for `get_async` it is a coroutine function.
    """

    def __init__(
        self, fetch: Callable[[], tuple[T, float] | Awaitable[tuple[T, float]]], *, leeway_seconds: float = 30.0
    ) -> None:
        """Fetch nothing yet. A token is replaced `leeway_seconds` before its end."""
        self._fetch: Callable[[], Any] = fetch
        self._leeway_seconds = leeway_seconds
        self._kept: _Kept[T] | None = None
        self._lock = PerProcess(_new_lock)
        self._flights: weakref.WeakKeyDictionary[Any, tuple[Incarnation, Any]] = weakref.WeakKeyDictionary()

    def get(self) -> T:
        """The token. Threads that ask while one of them fetches wait for it; what `fetch` raises, each of them tries again.

        Raises:
            TypeError: `fetch` is a coroutine function, or gives no pair.
        """
        kept = self._fresh()
        if kept is None:
            with self._lock.get():
                kept = self._fresh()
                while kept is None:
                    kept = self._keep(incarnation(), *self._clocks(), self._plain(self._fetch()))
        return kept.value

    async def get_async(self) -> T:
        """The same in a loop. All who ask during one fetch get its result or its error; a cancelled one leaves it running.

        Raises:
            TypeError: `fetch` is no coroutine function, or gives no pair.
        """
        import asyncio

        kept = self._fresh()
        while kept is None:
            loop, now = asyncio.get_running_loop(), incarnation()
            born_in, flight = self._flights.get(loop, (None, None))
            if flight is None or flight.done() or born_in != now:
                flight = loop.create_task(self._fly())
                flight.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to ask
                self._flights[loop] = now, flight
            kept = await asyncio.shield(flight)
        return kept.value

    def forget(self) -> None:
        """Fetch at the next use: the issuer refused the present one."""
        self._kept = None

    async def _fly(self) -> _Kept[T] | None:
        born_in, clocks = incarnation(), self._clocks()
        fetching = self._fetch()
        if not inspect.isawaitable(fetching):
            msg = f"fetch {self._fetch!r} is no coroutine function\nhint: call token.get(), or hand Token one"
            raise TypeError(msg)
        return self._keep(born_in, *clocks, await fetching)

    def _plain(self, fetched: Any) -> Any:
        if inspect.isawaitable(fetched):
            if inspect.iscoroutine(fetched):
                fetched.close()  # nobody waits for it
            msg = f"fetch {self._fetch!r} is a coroutine function\nhint: await token.get_async(), or hand Token a plain one"
            raise TypeError(msg)
        return fetched

    def _clocks(self) -> tuple[float, float]:
        return _boottime(), time.time()

    def _fresh(self) -> _Kept[T] | None:
        kept = self._kept
        if kept is None or kept.born_in != incarnation():
            return None
        boottime, wall = self._clocks()
        return kept if boottime < kept.until_boottime and wall < kept.until_wall else None

    def _keep(self, born_in: Incarnation, boottime: float, wall: float, fetched: tuple[T, float]) -> _Kept[T] | None:
        """Keep it, counted from before the fetch. None if the life in which it was fetched is over meanwhile."""
        try:
            value, seconds = fetched
        except (TypeError, ValueError):
            what = f"a {type(fetched).__name__}"  # not itself: it may be the token
            msg = f"fetch {self._fetch!r} gave {what}\nhint: return the token and for how many seconds it is good"
            raise TypeError(msg) from None
        good_for = seconds - self._leeway_seconds
        kept = _Kept(value, born_in, boottime + good_for, wall + good_for)
        if born_in != incarnation():
            return None
        self._kept = kept
        return kept


def _new_lock() -> AbstractContextManager[object]:
    return threading.RLock()
