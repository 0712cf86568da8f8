"""What the store has for runs that are being driven: signals, decisions, cancel, and whose lease it is.

Three things make a worker look: a hint, the poll behind it, and a renewal that shows something. Whatever is found is
compared with the executor that is there *then*: the one that was asked about may have put its run away meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.lease import stranger_wrote
from torpor.core.run import Flag
from torpor.engine import leases
from torpor.errors import StoreUnavailable
from torpor.worker.hearing import hear

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from torpor.core.lease import Lease
    from torpor.store.protocol import Store
    from torpor.worker.executor import Executor
    from torpor.worker.renewals import Held


class News:
    """Reads for a worker what came for its runs, all that were asked about at once."""

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        executors: Mapping[int, Executor],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Read nothing yet. `executors` is the worker's own, as it is at any moment."""
        self._store = store
        self._loop = loop
        self._executors = executors
        self._spawn = spawn
        self._asked: set[int] = set()

    def look_at(self, run_id: int) -> None:
        """Read soon what the store has for a run."""
        self._asked.add(run_id)
        if len(self._asked) == 1:
            self._loop.call_soon(lambda: self._spawn(self._read()))

    async def _read(self) -> None:
        ids, self._asked = sorted(self._asked), set()
        asked = {run_id: self._executors[run_id] for run_id in ids if run_id in self._executors}
        try:
            found = await self._store.transact(leases.news, ids)
        except StoreUnavailable:
            return  # the next tick looks again
        self._loop.call_soon(self._tell, asked, found)

    def _tell(self, asked: Mapping[int, Executor], found: dict[int, leases.News]) -> None:
        for run_id, news in found.items():
            executor = asked.get(run_id)
            if executor is None or self._executors.get(run_id) is not executor:
                continue  # it was put away meanwhile; whoever took it up again began with what is newer
            held = (executor.lease.token, executor.lease.epoch)
            if news.lease is None or (news.lease.token, news.lease.epoch) != held:
                if not executor.commits.pending:
                    executor.lost("the lease is somebody else's")
                continue
            executor.bodies.learn(news.blobs)
            hear(executor, news, news.lease)

    def renewed(self, asked: Sequence[Held], leases_now: list[Lease]) -> None:
        """Take the answer to a renewal, in the renewals' own thread."""
        try:
            self._loop.call_soon_threadsafe(self._after_renewal, asked, leases_now)
        except RuntimeError:
            return  # the loop is closed

    def _after_renewal(self, asked: Sequence[Held], leases_now: list[Lease]) -> None:
        rows = {lease.run_id: lease for lease in leases_now}
        for run_id, token, epoch in asked:
            executor = self._executors.get(run_id)
            if executor is None or (executor.lease.token, executor.lease.epoch) != (token, epoch):
                continue
            row = rows.get(run_id)
            if row is None:
                if not executor.commits.pending:
                    executor.lost("the lease could not be renewed: it was taken")
            elif Flag.CANCEL in row.flags and not executor.cancelling:
                self.look_at(run_id)
            elif stranger_wrote(row.head, sent_head=executor.head, in_flight=executor.commits.pending):
                self.look_at(run_id)  # the answer of a commit may just have come: read again before judging (G2)
