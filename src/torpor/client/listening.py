"""Waiting for something to be so in a store: hints make it fast, looking again makes it sure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from torpor.store.protocol import Store

T = TypeVar("T")
POLL_SECONDS = 1.0
"""Hints make whoever waits fast; this is the truth behind them."""
_FIRST_POLL_SECONDS = 0.05


async def until(store: Store, topics: Collection[str], look: Callable[[], Awaitable[T | None]]) -> T:
    """Return what `look` finds, as soon as it finds anything. What it raises is raised here."""
    loop = asyncio.get_running_loop()
    news = asyncio.Event()

    def heard(topic: str) -> None:
        if topic in topics:
            loop.call_soon_threadsafe(news.set)

    listener = await asyncio.to_thread(store.listen, heard)
    try:
        pause = _FIRST_POLL_SECONDS
        while True:
            news.clear()
            found = await look()
            if found is not None:
                return found
            try:
                async with asyncio.timeout(pause):  # not wait_for: it may swallow a Ctrl-C
                    await news.wait()
            except TimeoutError:
                pause = min(2 * pause, POLL_SECONDS)  # a short run is seen at once, a long one costs little
    finally:
        await asyncio.to_thread(listener.close)
