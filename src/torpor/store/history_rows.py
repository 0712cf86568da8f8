"""Rows about a run's history: where a copy came from, what was pruned, how long things are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Emptying(NamedTuple):
    """So many checkpoints of a run stay whole; with `outcomes`, what older turns' calls gave back goes with theirs."""

    run_id: int
    whole: int
    outcomes: bool = False


class ForkRow(NamedTuple):
    """Where a copied run came from: the run, the checkpoint's entry there, and when; who wanted it, and its title."""

    run_id: int
    source: int
    seq: int
    at: int
    made_by: str
    title: str


class PruneRow(NamedTuple):
    """Up to which entry a run's journal was pruned, or part its stream; when, and why, in the words people see."""

    run_id: int
    upto: int
    at: int
    why: str


class RetentionRow(NamedTuple):
    """How long a program's layers are kept, in microseconds. None: for ever."""

    program: str
    runs: int | None = None
    journal: int | None = None
    checkpoints: int | None = None
    stream: int | None = None
    slots: int | None = None


def old_end(rows: Iterable[tuple[int, int, int]], before: int) -> tuple[int, int, int]:
    """Return up to which number all is older than a moment (0: nothing is), how many these are, and their bytes.

    `rows` are (number, at, bytes) from the oldest on; what lies behind one that is younger stays, whatever its time.
    """
    upto = count = size = 0
    for number, at, length in rows:
        if at >= before:
            break
        upto, count, size = number, count + 1, size + length
    return upto, count, size
