"""Reading what runs emit and show while they are under way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.client.connected import Connected
from torpor.client.listening import POLL_SECONDS
from torpor.core.stream import PRUNED, Kept
from torpor.engine import streams
from torpor.errors import Conflict
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


_LAST = 2**63 - 1
"""The highest number that a part can have in a store."""


class Part(NamedTuple):
    """A numbered part of a run's stream.

    `kind` is `text`, `value` or `retract`. A retract's body is a list of [from, to], both included: these parts are
    taken back, because the attempt that emitted them was dropped. `at` is the store's time, in microseconds UTC.

    `pruned` stands in the place of parts that are gone: its body is a dict, `from` and `to` both included, `why`, its
    number is the last that went, and `at` is when. A reader who holds some of them drops these too, because what took
    them back may have gone with them.
    """

    n: int
    kind: str
    body: Any
    at: int


class Streaming(Connected):
    """Streams and views."""

    async def stream(self, run: str, after: int = 0, *, follow: bool = True) -> AsyncGenerator[Part, None]:
        """Yield the parts of a run's stream after a number, as they come, until the run has ended.

        Any number of readers, from any process, may begin anywhere and come back with the last number they have seen:
        none is missed and none is told twice (G11). With `follow=False` it ends with what is there now. The run does not
        know its readers. Raises NotFound, Conflict if the run ended and is being pruned.
        """
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        topics = {"ended"}

        def heard(topic: str) -> None:
            if topic in topics:
                loop.call_soon_threadsafe(news.set)

        listener = await asyncio.to_thread(self.store.listen, heard) if follow else None
        try:
            while True:
                news.clear()
                page = await self.store.transact(streams.read, run, after=min(after, _LAST), lane=Lane.READ)
                if topics == {"ended"}:
                    topics.add(streams.topic_of(page.run_id))
                    news.set()  # what came between the read and this line had no listener
                if page.gone is not None:
                    first, after = max(after, 0) + 1, page.gone.upto
                    yield Part(after, PRUNED, {"from": first, "to": after, "why": page.gone.why}, page.gone.at)
                for row in page.parts:
                    after = row.n
                    yield Part(row.n, row.kind.word, streams.body_of(row), row.at)
                if page.ended or (not follow and len(page.parts) < streams.PAGE):
                    return
                if len(page.parts) < streams.PAGE:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL_SECONDS):  # not wait_for: it may swallow a Ctrl-C
                            await news.wait()
        finally:
            if listener is not None:
                await asyncio.to_thread(listener.close)

    async def text(self, run: str) -> str:
        """Return the text that a run has emitted and that was not taken back, as it is now.

        Raises NotFound, Conflict if a part of it was pruned: `stream` yields what is left.
        """
        kept = Kept()
        async for part in self.stream(run, follow=False):
            if part.kind == PRUNED:
                gone = streams.gone_words(part.body["from"], part.n, part.at, part.body["why"])
                message = f"the text of {run} is not whole any more: {gone}"
                raise Conflict(message, hint=f"torpor tail {run}   shows what is left")
            kept.take(part.n, part.kind, part.body)
        return kept.text

    async def view(self, run: str) -> Any:
        """Return what a run shows of itself now (`ctx.show`), None if it shows nothing. Raises NotFound."""
        return await self.store.transact(streams.view, run, lane=Lane.READ)
