"""The schedule of a world: its events in the order of their time. One seed makes one schedule."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Schedule:
    """The events to come, by time; those of one time in the order they were made."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now = 0
        """Microseconds since the world began."""
        self.events = 0
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._made = 0

    def after(self, micros: int, call: Callable[[], object]) -> None:
        """Call something so many microseconds from now."""
        self._made += 1
        heapq.heappush(self._heap, (self.now + max(micros, 0), self._made, call))

    def step(self) -> bool:
        """Do what comes next. False: nothing does."""
        if not self._heap:
            return False
        self.now, _, call = heapq.heappop(self._heap)
        self.events += 1
        call()
        return True
