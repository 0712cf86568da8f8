"""A store whose claims and commits are counted and timed, for `torpor worker --metrics-port`.

It stands in front of the real one, so that a worker that is not asked for metrics pays nothing for them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeVar

from torpor import clock
from torpor.core.journal import Kind
from torpor.engine import leases
from torpor.engine.commit import commit
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.core.commit import Proposal
    from torpor.engine.commit import Reply
    from torpor.store.protocol import Store

T = TypeVar("T")

BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Histogram:
    """How long something took, in seconds: a count for each bound, and what is above them all."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        """Begin empty."""
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.seconds += seconds


class Counters:
    """What this process did since it began."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.claim_seconds = Histogram()
        self.commit_seconds = Histogram()
        self.claimed = 0
        self.commits = 0
        self.outcomes = 0
        self.refused = 0
        self.takeovers = 0

    def took(self, reaped: Sequence[object]) -> None:
        """Count takeovers: runs that the waker of this process freed."""
        self.takeovers += len(reaped)


class MeasuredStore:
    """A store in front of another one."""

    def __init__(self, store: Store) -> None:
        """Count from now on."""
        self._store = store
        self.counters = Counters()

    def __getattr__(self, name: str) -> Any:
        """Be the store for everything else."""
        return getattr(self._store, name)

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Run a transaction; a claim is timed."""
        if op is not leases.claim:
            return await self._store.transact(op, *args, lane=lane, **more)
        began = clock.monotonic()
        found: Any = await self._store.transact(op, *args, lane=lane, **more)
        self.counters.claim_seconds.add(clock.monotonic() - began)
        self.counters.claimed += len(found[0])
        answer: T = found
        return answer

    def transact_then(
        self,
        done: Callable[[Any, BaseException | None], None],
        op: Callable[..., Any],
        /,
        *args: Any,
        lane: Lane = Lane.WORK,
        **more: Any,
    ) -> None:
        """Run a transaction and call `done`; a commit is timed, its entries and its refusals are counted."""
        if op is not commit:
            self._store.transact_then(done, op, *args, lane=lane, **more)
            return
        began = clock.monotonic()
        proposals: Sequence[Proposal] = args[0]

        def answered(replies: Sequence[Reply] | None, error: BaseException | None) -> None:
            if replies is not None and error is None:
                self._count(proposals, replies, clock.monotonic() - began)
            done(replies, error)

        self._store.transact_then(answered, op, *args, lane=lane, **more)

    def _count(self, proposals: Sequence[Proposal], replies: Sequence[Reply], seconds: float) -> None:
        counters = self.counters
        counters.commit_seconds.add(seconds)
        counters.commits += len(proposals)
        for proposal, reply in zip(proposals, replies, strict=True):
            if reply.refused is not None:
                counters.refused += 1
            else:
                counters.outcomes += sum(entry.kind is Kind.OUTCOME for entry in proposal.entries)
