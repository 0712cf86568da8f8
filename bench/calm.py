"""Waiting until nobody else uses the machine: a figure taken beside somebody's compiler says little."""

from __future__ import annotations

import time
from pathlib import Path

ENOUGH = 0.9
_LOOK_SECONDS = 0.5


def idle_share() -> float:
    """Return which share of the processors' time was idle, over half a second. Blocking."""
    before = _ticks()
    time.sleep(_LOOK_SECONDS)
    after = _ticks()
    idle, whole = (now - then for now, then in zip(after, before, strict=True))
    return round(idle / whole, 3) if whole else 1.0


def _ticks() -> tuple[int, int]:
    numbers = [int(word) for word in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:9]]
    return numbers[3] + numbers[4], sum(numbers)


def wait_for_calm(most_seconds: float) -> float:
    """Wait until nine tenths of the machine are idle, at most so long, and return what it is then."""
    until = time.monotonic() + most_seconds
    while (share := idle_share()) < ENOUGH and time.monotonic() < until:
        continue
    return share
