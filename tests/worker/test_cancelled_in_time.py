"""A waker that is told to stop in the very moment in which it hears news stops: a worker once never ended then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.patience import PATIENCE_SECONDS
from torpor.waker import Waker

if TYPE_CHECKING:
    from torpor.store.protocol import Store


def test_news_and_the_end_at_once(store: Store) -> None:
    """Both in one turn of the loop."""

    async def main() -> None:
        waker: Any = Waker(store)
        working = asyncio.create_task(waker.run())
        while not waker._news._waiters:  # noqa: SLF001 - it waits for news now
            await asyncio.wait([working], timeout=0.001)
        waker._news.set()  # noqa: SLF001 - what a hint does
        working.cancel()
        await asyncio.wait([working], timeout=PATIENCE_SECONDS)
        assert working.cancelled()

    asyncio.run(main())
