"""Tell a frozen process from a blocked event loop: a thread that does nothing but note the time."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..event import Finding, Kind
from .clocks import MICROSECONDS
from .differences import Frozen, default_detectors

if TYPE_CHECKING:
    from .clocks import Clocks, Detector, Limits, Reading

_REMEMBERED = 20_000
"""Beats: some hours at a tick of a second. Whoever looks later than that finds a freeze that may have been none."""


class Pulse:
    """Notes the monotonic clock twice a tick, in a thread, for any number of readers."""

    def __init__(self, clocks: Clocks, tick_seconds: float) -> None:
        """Call `start()`, or `beat()` by hand."""
        self._clocks = clocks
        self._every_seconds = tick_seconds / 2
        self._beats: deque[int] = deque([clocks.monotonic()], _REMEMBERED)
        self._beats_on = threading.Lock()  # not an Event: that one waits in Python, which costs more than the beat
        self._beats_on.acquire()

    def start(self) -> None:
        """Beat until `stop()`."""
        threading.Thread(target=self._loop, name="rouse-pulse", daemon=True).start()

    def stop(self) -> None:
        """Beat no more; does not wait for the thread."""
        with contextlib.suppress(RuntimeError):  # the second time
            self._beats_on.release()

    def beat(self) -> None:
        """Note the time."""
        self._beats.append(self._clocks.monotonic())

    def longest_gap(self, since: int, until: int) -> int:
        """Return the longest time without a beat between two moments; microseconds."""
        while True:
            try:
                return self._longest_gap(since, until)
            except RuntimeError:  # it beat just then
                continue

    def _longest_gap(self, since: int, until: int) -> int:
        longest, later = 0, until
        for beat in reversed(self._beats):
            if beat <= since:
                break
            if beat < later:
                longest, later = max(longest, later - beat), beat
        return max(longest, later - since)

    def _loop(self) -> None:
        while not self._beats_on.acquire(timeout=self._every_seconds):
            self.beat()


@dataclass(frozen=True, slots=True)
class PulseStopped:
    """Whether a thread that only notes the time did not come to it: the process was frozen, not merely its event loop.

    Sees: what `frozen` sees, in a program whose event loop may be blocked for longer than the limit by its own code.
    Cannot see: less than tick + freeze seconds (3 s unless told otherwise); a virtual machine whose clocks stood still.
    Needs: no root, any system; a thread.
    Cost: two wake-ups of a thread a tick, 80 us each.
    Fallback: `frozen`, which takes a blocked loop for a freeze.
    """

    tick_seconds: float
    freeze_seconds: float
    pulse: Pulse
    name: ClassVar[str] = "frozen"

    def __call__(self, before: Reading, now: Reading) -> Finding | None:
        """Find a gap between two beats that is at least `freeze_seconds` longer than a tick."""
        seconds = self.pulse.longest_gap(before.monotonic_at, now.monotonic_at) / MICROSECONDS - self.tick_seconds
        if seconds < self.freeze_seconds:
            return None
        limit = f"limit {self.freeze_seconds:g} s"
        evidence = f"no thread ran for {seconds:.3f} s more than a tick of {self.tick_seconds:g} s ({limit})"
        return Finding(Kind.FROZEN, evidence, seconds, by=self.name)


def patient_detectors(limits: Limits, pulse: Pulse) -> tuple[Detector, ...]:
    """Return `default_detectors` for whoever looks from an event loop: one that is blocked by its own code is no freeze."""
    return tuple(
        PulseStopped(each.tick_seconds, each.freeze_seconds, pulse) if isinstance(each, Frozen) else each
        for each in default_detectors(limits)
    )
