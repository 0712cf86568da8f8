"""The committer: commits of different runs that come together share a transaction and an fsync (group commit).

Nothing is added to the wait of a run that is alone: a flush happens at the end of the loop's iteration in which the first
executor asked for it, and takes whoever asked meanwhile. One batch is under way at a time; while it is, others collect.

An executor builds its proposal at the moment of the flush, so that everything it has gathered by then travels together.
Replies are delivered from a plain callback, in order, because a flow's own loop must not be driven from inside a task.

If the answer of a batch is lost: new connection, life lock, then find out about each proposal by itself (G3).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol

from torpor.core.lease import Fence, LostAnswer
from torpor.core.run import Flag, State
from torpor.engine.commit import Reply, commit, find_out
from torpor.errors import StoreUnavailable
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import Proposal
    from torpor.store.protocol import Store
    from torpor.worker.standing import Standing

log = logging.getLogger("torpor.worker")

BATCH = 128
BATCH_CONTENDED = 50
"""At most so many proposals in one transaction; fewer while other processes wait for their turn to write.

Half of five hundred runs can go on while the store works for the other half: one batch of all of them would leave the
loop and the store waiting for each other in turn (measured: 10 to 25 % fewer steps).
"""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_COMMIT = "a commit"


class Committing(Protocol):
    """What the committer needs of an executor."""

    def build(self) -> Proposal | None:
        """Return what is to be committed now; None if there is nothing any more."""

    def committed(self, proposal: Proposal, reply: Reply) -> None:
        """Take the reply. Called from a plain callback of the loop."""

    def broken(self, proposal: Proposal, error: Exception) -> None:
        """Take an error that is this proposal's own fault."""


Batch = list[tuple[Committing, "Proposal"]]


class Committer:
    """Collects executors that have something to commit."""

    def __init__(self, store: Store, standing: Standing, *, lease_micros: int) -> None:
        """Commit to a store, while standing; made on the worker's loop, which a copy of the process must be able to name."""
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._standing = standing
        self._lease_micros = lease_micros
        self._waiting: list[Committing] = []
        self._scheduled = False
        self._busy = False
        self._trouble: asyncio.Task[None] | None = None
        self.batches = 0
        self.commits = 0

    def submit(self, executor: Committing) -> None:
        """Ask for a flush at the end of this iteration of the loop."""
        self._waiting.append(executor)
        if not self._scheduled and not self._busy:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        if self._busy:
            return
        most = BATCH_CONTENDED if self._store.contended else BATCH
        while self._waiting and not self._busy:
            taken, self._waiting = self._waiting[:most], self._waiting[most:]
            batch = [(executor, proposal) for executor in taken if (proposal := executor.build()) is not None]
            if batch:
                self._send(batch)

    def _send(self, batch: Batch) -> None:
        self._busy = True
        self.batches += 1
        self.commits += len(batch)
        if not self._standing.may_write():
            self._look_into(batch, None)
            return
        proposals = [proposal for _, proposal in batch]
        self._standing.sending.begin(_COMMIT)
        answered = partial(self._answered, batch)
        self._store.transact_then(answered, commit, proposals, lane=Lane.COMMIT, lease_micros=self._lease_micros)

    def _answered(self, batch: Batch, replies: list[Reply] | None, error: BaseException | None) -> None:
        self._standing.sending.end(_COMMIT)
        if replies is None or error is not None:
            self._look_into(batch, error)
            return
        self._busy = False
        self._flush()  # the store works on the next batch while the loop delivers this one
        _deliver(batch, replies)

    # trouble

    def _look_into(self, batch: Batch, error: BaseException | None) -> None:
        self._trouble = self._loop.create_task(self._settle_batch(batch, error))
        self._trouble.add_done_callback(self._looked_into)

    def _looked_into(self, trouble: asyncio.Task[None]) -> None:
        self._busy, self._trouble = False, None
        if not trouble.cancelled() and (error := trouble.exception()) is not None:
            log.critical("the committer failed", exc_info=error)
        self._flush()

    async def _settle_batch(self, batch: Batch, error: BaseException | None) -> None:
        """Commit a batch after an interruption of this process, or after it failed."""
        if not await self._standing.stands():
            self._reply(batch, [_LOST] * len(batch))
            return
        proposals = [proposal for _, proposal in batch]
        replies: Sequence[Reply | Exception]
        failed: Exception | None = None
        with self._standing.sending.of(_COMMIT):
            try:
                if error is not None:
                    raise error
                lease = self._lease_micros
                replies = await self._store.transact(commit, proposals, lane=Lane.COMMIT, lease_micros=lease)
            except StoreUnavailable as unavailable:
                replies = await self._find_out(proposals, unavailable)
            except Exception as raised:  # noqa: BLE001 - one bad commit must fail alone, whatever is wrong with it
                failed = raised
        if failed is not None:
            await self._one_by_one(batch, failed)
        else:
            self._reply(batch, replies)

    async def _one_by_one(self, batch: Batch, error: Exception) -> None:
        if len(batch) == 1:
            executor, proposal = batch[0]
            self._loop.call_soon(executor.broken, proposal, error)
            return
        for one in batch:
            await self._settle_batch([one], None)

    async def _find_out(self, proposals: list[Proposal], error: StoreUnavailable) -> list[Reply | Exception]:
        """Wait until the store answers again, then learn what became of each commit, in the fixed order (G3).

        One that the store refuses fails alone: its error stands in place of its reply.
        """
        log.warning("the store is unavailable, commits wait: %s", error.message)
        pause = _FIRST_PAUSE
        replies: dict[int, Reply | Exception] = {}
        while len(replies) < len(proposals):
            self._store.recover(Lane.COMMIT)
            try:
                await self._store.transact(_touch, lane=Lane.COMMIT)
                if not await self._standing.prove():
                    return [replies.get(p.run_id, _LOST) for p in proposals]
                for proposal in proposals:
                    if proposal.run_id not in replies:
                        replies[proposal.run_id] = await self._settle(proposal)
            except StoreUnavailable:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        return [replies[p.run_id] for p in proposals]

    async def _settle(self, proposal: Proposal) -> Reply | Exception:
        verdict, reply = await self._store.transact(find_out, proposal, lane=Lane.COMMIT)
        if verdict is not LostAnswer.SEND_AGAIN:
            return reply if verdict is LostAnswer.HAPPENED else _LOST
        try:
            again = await self._store.transact(commit, [proposal], lane=Lane.COMMIT, lease_micros=self._lease_micros)
        except StoreUnavailable:
            raise
        except Exception as bad:  # noqa: BLE001 - whatever is wrong with it is this proposal's own
            return bad
        return again[0]

    def _reply(self, batch: Batch, replies: Sequence[Reply | Exception]) -> None:
        self._loop.call_soon(_deliver, batch, replies)


_LOST = Reply(0, Flag.NONE, State.RUNNING, Fence.LOST)


def _touch(tx: object) -> None:
    """Open the connection: before the life lock is proven, and before anything is read back."""


def _deliver(batch: Batch, replies: Sequence[Reply | Exception]) -> None:
    for (executor, proposal), reply in zip(batch, replies, strict=True):
        if isinstance(reply, Exception):
            executor.broken(proposal, reply)
        else:
            executor.committed(proposal, reply)
