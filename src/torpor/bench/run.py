"""`torpor bench`: runs one workload and prints its row."""

from __future__ import annotations

import sys
from json import dumps
from typing import TYPE_CHECKING

from torpor.bench.effects import effects
from torpor.bench.latency import latency
from torpor.bench.resumption import resumption
from torpor.bench.sleeping import sleeping
from torpor.bench.throughput import throughput
from torpor.bench.waking import waking
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.bench.rows import Row, Wanted

WORKLOADS: dict[str, Callable[[Wanted], Row]] = {
    "w1": throughput,
    "w2": sleeping,
    "w3": resumption,
    "w4": latency,
    "w5": effects,
    "w6": waking,
}


def measure(workload: str, wanted: Wanted) -> Row:
    """Run a workload on a store of its own, and return its row. Blocking. Raises UsageError for what makes no sense."""
    if workload not in WORKLOADS:
        raise UsageError(f"there is no workload {workload!r}", hint=f"one of: {', '.join(WORKLOADS)}")
    for name in ("runs", "steps", "history", "trials", "parked"):
        number = getattr(wanted, name)
        if number < 1:
            usual = wanted._field_defaults[name]
            raise UsageError(f"--{name} {number} is not a whole number from 1", hint=f"--{name} {usual}, for example")
    return WORKLOADS[workload](wanted)


def command(workload: str, wanted: Wanted, *, json: bool) -> int:
    """Run a workload and print its row: one JSON object with `json`, else a field a line. Return the exit code.

    Raises TorporError.
    """
    row = measure(workload, wanted)
    sys.stdout.write(dumps(row) + "\n" if json else as_text(row))
    return 0


def as_text(row: Row) -> str:
    """Return a row for people: a field a line, names and values aligned."""
    width = max(len(name) for name in row)
    return "".join(f"{name:<{width}}  {_spoken(value)}\n" for name, value in row.items())


def _spoken(value: object) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name} {_spoken(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_spoken(inner) for inner in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
