"""Whether this process may still act as the worker it was: the same uninterrupted life, the life lock held, leases checked.

After a gap in its clocks, a freeze, or a copy, the worker fences itself: no effect and no commit before every lease was
checked again. The order is fixed: drop connections opened in another life, prove the life lock, renew every lease, and only
then act. A process that is a copy (another pid) does no IO at all: its threads are not there, it is not the worker, and
what would be done at its end (connections closed, threads joined) is the original's business. So it ends on the spot.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from torpor import clock, rouse
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from torpor.store.protocol import LifeLock, Store


class Standing:
    """One worker's right to act. `may_write()` is asked before every commit, `look()` before every effect."""

    def __init__(self, store: Store, life: LifeLock, limits: rouse.Limits, clocks: rouse.Clocks) -> None:
        """Begin in the present incarnation, with the life lock just taken."""
        self._store = store
        self._life = life
        self._limits = limits
        self._clocks = clocks
        own = rouse.Registry()  # a callback of the author's that fails must not stop every commit in silence
        self._watcher = rouse.Watcher(limits, clocks=clocks, registry=own)
        self._looked_at = self._two_clocks()
        self._pid = os.getpid()
        self._checking: asyncio.Future[bool] | None = None
        self._incarnation = rouse.incarnation()
        self.gone = ""
        """Why this worker must never act again, or empty."""
        self.recheck: Callable[[], Awaitable[None]] | None = None
        """Renews every lease and drops the lost ones; set by the worker."""
        self.on_copy: Callable[[str], None] = _nobody
        """Ends a process that is a copy, and is told why; set by the worker."""

    @property
    def incarnation(self) -> str:
        """The life in which every lease was last checked."""
        return self._incarnation

    def ok(self) -> bool:
        """Whether nothing happened to this memory image since every lease was checked. Costs under a microsecond."""
        if not self.gone and rouse.incarnation() == self._incarnation:
            return True
        self.end_copy()
        return False

    def end_copy(self) -> None:
        """End this process if it is a copy of the worker's, made past the at-fork hooks (G2)."""
        if os.getpid() != self._pid:
            self.gone = f"this process is a copy of worker process {self._pid}"
            self.on_copy(self.gone)

    def look(self) -> bool:
        """Ask the detectors as well, not only what they found so far: what the gate does (G2)."""
        if not self.gone and os.getpid() == self._pid:
            self._looked_at = self._two_clocks()
            self._watcher.check()
        return self.ok()

    def may_write(self) -> bool:
        """Whether a commit may be sent: `ok`, and after time away `look` first. Costs some two microseconds.

        A commit comes sooner after a wake than the next tick. The detectors are too slow to ask for each; two clocks tell
        whether this process was late or the machine slept, and that is when the detectors are asked.
        """
        monotonic_at, boottime_at = self._two_clocks()
        late = monotonic_at - self._looked_at[0]
        slept = boottime_at - self._looked_at[1] - late
        limits = self._limits
        if late < clock.micros(limits.tick_seconds + limits.freeze_seconds) and slept < clock.micros(
            limits.suspend_seconds
        ):
            return self.ok()
        return self.look()

    def _two_clocks(self) -> tuple[int, int]:
        """Return a clock that stands still while the machine sleeps, and one that does not."""
        boottime_at = self._clocks.boottime()
        return self._clocks.monotonic(), self._clocks.wall() if boottime_at is None else boottime_at

    async def restore(self) -> bool:
        """Check everything again after an interruption. False: this worker is gone, with the reason in `gone`."""
        self.end_copy()
        if self.gone:
            return False
        if self._checking is None:
            self._checking = asyncio.ensure_future(self._restore())
            self._checking.add_done_callback(self._checked)
        return await asyncio.shield(self._checking)

    def _checked(self, _: object) -> None:
        self._checking = None

    async def _restore(self) -> bool:
        while not self.ok():
            now = rouse.incarnation()
            for lane in Lane:
                self._store.recover(lane)
            if not await self.prove():
                return False
            if self.recheck is not None:
                await self.recheck()
            self._incarnation = now  # if it changed meanwhile the loop goes round again
        return True

    async def prove(self) -> bool:
        """Prove the life lock by a round trip on its own connection. False: lost, stop as if fenced."""
        if not self.gone and not await asyncio.to_thread(self._life.held):
            self.gone = "the life lock is lost: another process may believe that this one is dead"
        return not self.gone


def _nobody(_why: str) -> None:
    """Nobody ends this process."""
