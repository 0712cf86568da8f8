"""The gate: the last check before an effect starts, after its intent is durable (G2, G4, G12).

It asks, in this order: the detectors (was this process frozen, stepped or copied?), the life lock for `once` and `verify`
by a round trip, and the store: lease, epoch, head and cancel. The store is read last, so that nothing can happen between its
answer and the start but what the promise excepts. If this process was away meanwhile, all of it is asked again. Gates asked
together are read together.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from torpor.core.effect import Gate as Verdict
from torpor.core.effect import Safety, gate
from torpor.engine.effects import look
from torpor.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.store.protocol import Store
    from torpor.worker.roles import Executor
    from torpor.worker.standing import Standing

_PAUSE = 0.2


class Gate:
    """Collects effects that want to start, and reads the store once for all of them."""

    def __init__(self, store: Store, standing: Standing) -> None:
        """Guard effects of one worker."""
        self._store = store
        self._standing = standing
        self._asked: list[tuple[Executor, Safety, Callable[[Verdict], None]]] = []
        self._reading: set[asyncio.Task[None]] = set()
        self._later: list[tuple[Executor, Safety, Callable[[Verdict], None]]] = []

    @property
    def busy(self) -> bool:
        """Whether an effect may be about to start."""
        return bool(self._asked or self._reading)

    @property
    def waiting(self) -> bool:
        """Whether effects wait for a snapshot: their intent is recorded, and they have not begun."""
        return any(not executor.ended for executor, _, _ in self._later)

    def ask(self, executor: Executor, safety: Safety, answer: Callable[[Verdict], None]) -> None:
        """Ask whether an effect of a run may start; `answer` is called from a plain callback.

        The head is compared, so until it is read no commit of this run may move it: commits wait for the gate. While a
        snapshot is about to be taken nothing is asked: what acts is recorded first (`quiet`).
        """
        if self._standing.pausing:
            self._later.append((executor, safety, answer))
            return
        executor.commits.hold(lambda: self._enter(executor, safety, answer))

    def ask_again(self) -> None:
        """Ask for those that had to wait for a snapshot."""
        later, self._later = self._later, []
        for executor, safety, answer in later:
            if not executor.ended:
                self.ask(executor, safety, answer)

    def _enter(self, executor: Executor, safety: Safety, answer: Callable[[Verdict], None]) -> None:
        if not self._asked:
            executor.worker.loop.call_soon(self._read)
        self._asked.append((executor, safety, answer))

    def _read(self) -> None:
        self._standing.end_copy()
        asked, self._asked = self._asked, []
        reading = asyncio.get_running_loop().create_task(self._decide(asked))
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)

    async def _decide(self, asked: list[tuple[Executor, Safety, Callable[[Verdict], None]]]) -> None:
        loop = asyncio.get_running_loop()
        stands = self._standing.look() or await self._standing.restore()
        held = stands
        if stands and any(safety.asks_life_lock for _, safety, _ in asked):
            held = await self._standing.prove()
        leases = {}
        while stands:
            try:
                leases = await self._store.transact(look, [executor.run.id for executor, _, _ in asked])
                if self._standing.look():
                    break
                # away while it was read: what was read then counts only once every lease was checked again (G2)
                stands = await self._standing.restore() and await self._standing.prove()
            except StoreUnavailable:
                await asyncio.sleep(_PAUSE)
                # a new connection was opened: nothing read on it counts before the life lock was proven again (G2)
                stands = (self._standing.look() or await self._standing.restore()) and await self._standing.prove()
        for executor, safety, answer in asked:
            verdict = gate(
                leases.get(executor.run.id),
                token=executor.lease.token,
                epoch=executor.lease.epoch,
                head=executor.head,
                same_incarnation=stands and self._standing.ok(),
                life_lock_held=held or not safety.asks_life_lock,
                undoing=executor.undoing,
            )
            loop.call_soon(answer, verdict)
            loop.call_soon(executor.commits.release)
