"""Lingering: a run that can only wait keeps its lease for a moment, so that what comes at once finds it hot.

It is a courtesy, never a promise: whatever comes after the moment, or is not heard of in it, is looked for in the
transaction that puts the run away (G7). So it costs one timer and holds nothing back: a worker without a free place does
not linger, and one whose last place is taken lets go of all that do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.wait import WaitKind, due_at

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from torpor.core.wait import Open
    from torpor.worker.roles import Worker

LINGER_SECONDS = 0.05
_LEAST_SECONDS = 0.0005
_BY_TIME = frozenset({WaitKind.TIMER, WaitKind.RETRY, WaitKind.RATE})


class Linger:
    """Whether one run lingers, and until when."""

    __slots__ = ("_again", "_ends_at", "_timer", "_worker")

    def __init__(self, worker: Worker, again: Callable[[], None]) -> None:
        """Do not linger yet. `again` is called when the moment is over, or has to be."""
        self._worker = worker
        self._again = again
        self._ends_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def active(self) -> bool:
        """Whether it lingers."""
        return self._timer is not None

    def stay(self, waits: Sequence[Open]) -> bool:
        """Whether to keep the lease at these waits for now; if so, `again` is called in time.

        The moment is counted from the first time it is asked since `end`: news that satisfies no wait makes it no longer.
        """
        worker = self._worker
        now = worker.loop.time()
        if self._ends_at is None:
            self._ends_at = now + worker.linger_seconds
        left = max(self._ends_at - now, 0.0)
        due = due_at(waits)
        pause = left if due is None else (due - worker.now()) / 1_000_000
        if due is None or pause > left or worker.others_wait:
            if left == 0 or not worker.room or all(wait.kind in _BY_TIME for wait in waits):
                return False
            pause = left
        if self._timer is not None:
            self._timer.cancel()
        self._timer = worker.loop.call_later(max(pause, _LEAST_SECONDS), self._again)
        worker.lingering.add(self)
        return True

    def cut(self) -> None:
        """See again whether to stay: the worker has no room any more."""
        self._again()

    def end(self) -> None:
        """Linger no more: the run goes on, or is put away."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._worker.lingering.discard(self)
        self._ends_at = None
