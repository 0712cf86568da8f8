"""Rows: what a workload is asked for and what it answers."""

from __future__ import annotations

import math
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row: TypeAlias = dict[str, Any]
"""Field names and plain values; seconds end in `_s` or `secs`, milliseconds in `_ms`, as in the scripts it is compared with."""


class Wanted(NamedTuple):
    """What a workload is asked for. `trials`: how often; the row is that of the median trial."""

    store: str
    runs: int = 500
    steps: int = 10
    history: int = 1000
    trials: int = 3
    parked: int = 1000


def median_row(trial: Callable[[], Row], trials: int, *, by: str) -> Row:
    """Run a trial so many times and return the row whose `by` is the (lower) median, with every trial's `by` beside it."""
    rows = [trial() for _ in range(trials)]
    middle = median_low([row[by] for row in rows])
    chosen = next(row for row in rows if row[by] == middle)
    return {**chosen, "trials": trials, f"{by}_each": [row[by] for row in rows]}


def percentile(numbers: Sequence[float], percent: float) -> float:
    """Return the nearest rank."""
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def spread_ms(seconds: Sequence[float]) -> Row:
    """Return how durations are spread, in milliseconds."""
    return {
        "n": len(seconds),
        "p50_ms": round(percentile(seconds, 50) * 1e3, 3),
        "p99_ms": round(percentile(seconds, 99) * 1e3, 3),
        "max_ms": round(max(seconds) * 1e3, 3),
    }
