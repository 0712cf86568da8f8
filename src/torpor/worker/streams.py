"""Streams of a worker's runs: what is emitted is gathered for a few tens of milliseconds and written in one transaction.

That transaction runs in the lane of ordinary work, so commits of runs that emit nothing never wait for it. A run's own
commits are held while its parts are under way, and the other way round: numbers are given out in one place at a time, and
what became of the one is known before the other is built. One transaction is under way at a time; what is emitted
meanwhile goes with the next, so a slow store makes parts larger, not more.

If the answer is lost it is found out as for a commit (G3): a new connection, the life lock, then the store is asked.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol

from torpor.core.lease import LostAnswer
from torpor.engine import streams
from torpor.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.engine.streams import Said
    from torpor.store.protocol import Store
    from torpor.worker.standing import Standing

log = logging.getLogger("torpor.worker")

GATHER_SECONDS = 0.03
"""So long a part waits for others before it is written."""
VIEW_SECONDS = 0.5
"""So long a view waits for a commit that takes it along; and so far apart views are written at least."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_SLACK_SECONDS = 0.005
_PART = "a part of a stream"


class Speaking(Protocol):
    """A run's stream, as whoever writes it sees it."""

    def hold(self, quiet: Callable[[], None]) -> None:
        """Let no commit of the run go before `build` says None, or `said`, and call `quiet` once none is under way.

        One that waits for that is asked again when more is emitted: then `quiet` is called once all the same.
        """

    def build(self) -> Said | None:
        """Return what is to be written now; None if there is nothing any more: commits go on."""

    def said(self, n: int | None) -> None:
        """Take the stream's counter after the write, None if it was refused; commits go on."""


Batch = list[tuple[Speaking, "Said"]]


class Streams:
    """Collects the streams that have something to say."""

    def __init__(self, store: Store, standing: Standing) -> None:
        """Write to a store, while standing; made on the worker's loop."""
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._standing = standing
        self._due: dict[Speaking, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._quiet: list[Speaking] = []
        self._sending = False
        self._busy = False
        self._trouble: asyncio.Task[list[int | None]] | None = None
        self.writes = 0

    def stir(self, stream: Speaking, seconds: float = GATHER_SECONDS) -> None:
        """Write what a stream has to say, within so long."""
        at = self._loop.time() + seconds
        if self._due.get(stream, at + 1.0) <= at:
            return
        self._due[stream] = at
        if self._timer is None or at < self._timer.when():
            self._arm(at)

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._gather)

    def _gather(self) -> None:
        """Ask the runs that are due to hold still; each says when it does."""
        self._timer = None
        if self._busy:
            return  # looked at again when the answer is here: no run holds its commits for another one's
        soon = self._loop.time() + _SLACK_SECONDS
        due = [stream for stream, at in self._due.items() if at <= soon]
        for stream in due:
            del self._due[stream]
            stream.hold(partial(self._holds, stream))
        if self._due:
            self._arm(min(self._due.values()))

    def _holds(self, stream: Speaking) -> None:
        self._quiet.append(stream)
        if not self._sending and not self._busy:
            self._sending = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._sending = False
        if self._busy:
            return
        quiet, self._quiet = self._quiet, []
        batch = [(stream, said) for stream in quiet if (said := stream.build()) is not None]
        if not batch:
            return
        self._busy = True
        self.writes += 1
        if not self._standing.may_write():
            self._look_into(batch, None)
            return
        self._standing.sending.begin(_PART)
        self._store.transact_then(partial(self._answered, batch), streams.append, [said for _, said in batch])

    def _answered(self, batch: Batch, counters: list[int | None] | None, error: BaseException | None) -> None:
        self._standing.sending.end(_PART)
        if counters is None or error is not None:
            self._look_into(batch, error)
        else:
            self._tell(batch, counters)

    def _tell(self, batch: Batch, counters: Sequence[int | None]) -> None:
        self._busy = False
        for (stream, _), n in zip(batch, counters, strict=True):
            stream.said(n)
        if self._quiet:
            self._send()
        if self._due and self._timer is None:
            self._arm(min(self._due.values()))

    # trouble

    def _look_into(self, batch: Batch, error: BaseException | None) -> None:
        self._trouble = self._loop.create_task(self._settle_batch(batch, error))
        self._trouble.add_done_callback(partial(self._looked_into, batch))

    def _looked_into(self, batch: Batch, trouble: asyncio.Task[list[int | None]]) -> None:
        self._trouble = None
        if trouble.cancelled():
            return  # the loop ends
        error = trouble.exception()
        if error is not None:
            log.critical("a stream could not be written", exc_info=error)
        self._tell(batch, trouble.result() if error is None else [None] * len(batch))

    async def _settle_batch(self, batch: Batch, error: BaseException | None) -> list[int | None]:
        """Write a batch after an interruption of this process, or after it failed."""
        if not await self._standing.stands():
            return [None] * len(batch)
        wanted = [said for _, said in batch]
        failed: Exception
        with self._standing.sending.of(_PART):
            try:
                if error is not None:
                    raise error
                return await self._store.transact(streams.append, wanted)
            except StoreUnavailable as unavailable:
                log.warning("the store is unavailable, streams wait: %s", unavailable.message)
                return [await self._find_out(said) for said in wanted]
            except Exception as raised:  # noqa: BLE001 - looked at below
                failed = raised
        if len(wanted) == 1:
            log.error("a run's stream could not be written", exc_info=failed)
            return [None]  # its lease is let go; whoever takes it over meets the same, and then a person is asked (G13)
        alone = [await self._settle_batch([one], None) for one in batch]
        return [counter for [counter] in alone]

    async def _find_out(self, said: Said) -> int | None:
        """Wait until the store answers, then learn what became of a write, in the fixed order (G3)."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._store.transact(_touch)
                if not await self._standing.prove():
                    return None
                verdict, n = await self._store.transact(streams.find_out, said)
                if verdict is LostAnswer.SEND_AGAIN:
                    return (await self._store.transact(streams.append, [said]))[0]
            except StoreUnavailable:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                return n if verdict is LostAnswer.HAPPENED else None


def _touch(tx: object) -> None:
    """Open the connection: before the life lock is proven, and before anything is read back."""
