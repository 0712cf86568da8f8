"""That a worker is asked to stop, and for how long it is not gone yet: its drain.

What acts, and what is there to be recorded, is waited for: an effect that is cut in the middle is a question for a person, a
result that is thrown away is work done twice. A gate that is shut holds both up, so a worker that drains goes on trying to
open it. If nothing would be lost nobody waits for a shut gate, and nobody waits longer than the drain.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from torpor import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any


class Stopping:
    """Whether one worker is asked to stop, and what it waits for until then."""

    def __init__(self, drain_seconds: float, waits: Callable[[], bool]) -> None:
        """Nobody has asked. `waits()` says whether something would be lost if the worker were gone."""
        self._drain_seconds = drain_seconds
        self._waits = waits
        self._asked = asyncio.Event()
        self._over_at = math.inf
        self.on_asked: Callable[[], None] = _nothing
        """Called once it is asked."""

    @property
    def asked(self) -> bool:
        """Whether it is asked to stop."""
        return self._asked.is_set()

    @property
    def left(self) -> float:
        """How many seconds of the drain are left; without end before it is asked to stop, and never below 0."""
        return max(self._over_at - clock.monotonic(), 0.0)

    @property
    def over(self) -> bool:
        """Whether nothing is waited for any more: nothing would be lost, or the drain is over."""
        return self.asked and (self.left <= 0.0 or not self._waits())

    def ask(self) -> None:
        """Ask it to stop; the drain begins. Does nothing the second time."""
        if not self.asked:
            self._over_at = clock.monotonic() + self._drain_seconds
            self._asked.set()
            self.on_asked()

    async def unless_asked(self, going: Coroutine[Any, Any, bool]) -> bool:
        """Return what `going` returns, or False as soon as it is asked to stop."""
        done, asked = asyncio.ensure_future(going), asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait([done, asked], return_when=asyncio.FIRST_COMPLETED)
            return not self.asked and done.result()
        finally:
            done.cancel()
            asked.cancel()


def _nothing() -> None:
    """Nobody waits for it."""
