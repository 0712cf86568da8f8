"""Tell a frozen process from a blocked event loop: a thread that does nothing but note the time."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from ..event import Finding, Kind
from .clocks import MICROSECONDS

if TYPE_CHECKING:
    from .clocks import Clocks, Reading


class Pulse:
    """Notes the monotonic clock twice a tick, in a thread, for one reader."""

    def __init__(self, clocks: Clocks, tick_seconds: float) -> None:
        """Call `start()`, or `beat()` by hand."""
        self._clocks = clocks
        self._every_seconds = tick_seconds / 2
        self._beats: deque[int] = deque([clocks.monotonic()])
        self._stop = threading.Event()

    def start(self) -> None:
        """Beat until `stop()`."""
        threading.Thread(target=self._loop, name="rouse-pulse", daemon=True).start()

    def stop(self) -> None:
        """Beat no more; does not wait for the thread."""
        self._stop.set()

    def beat(self) -> None:
        """Note the time."""
        self._beats.append(self._clocks.monotonic())

    def longest_gap(self, until: int) -> int:
        """Return the longest time without a beat since the last call, up to the moment `until`; microseconds."""
        beats = [self._beats.popleft() for _ in range(len(self._beats))]
        self._beats.appendleft(max(until, beats[-1]))
        return max(later - earlier for earlier, later in pairwise([*beats, max(until, beats[-1])]))

    def _loop(self) -> None:
        while not self._stop.wait(self._every_seconds):
            self.beat()


@dataclass(frozen=True, slots=True)
class PulseStopped:
    """Whether a thread that only notes the time did not come to it: the process was frozen, not merely its event loop.

    Sees: what `frozen` sees, in a program whose event loop may be blocked for longer than the limit by its own code.
    Cannot see: less than tick + freeze seconds (3 s unless told otherwise); a virtual machine whose clocks stood still.
    Needs: no root, any system; a thread.
    Cost: two wake-ups of a thread a tick, 20 us each.
    Fallback: `frozen`, which takes a blocked loop for a freeze.
    """

    tick_seconds: float
    freeze_seconds: float
    pulse: Pulse
    name: ClassVar[str] = "frozen"

    def __call__(self, _before: Reading, now: Reading) -> Finding | None:
        """Find a gap between two beats that is at least `freeze_seconds` longer than a tick."""
        seconds = self.pulse.longest_gap(now.monotonic_at) / MICROSECONDS - self.tick_seconds
        if seconds < self.freeze_seconds:
            return None
        limit = f"limit {self.freeze_seconds:g} s"
        evidence = f"no thread ran for {seconds:.3f} s more than a tick of {self.tick_seconds:g} s ({limit})"
        return Finding(Kind.FROZEN, evidence, seconds, by=self.name)
