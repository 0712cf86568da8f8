"""Rows about a run's history: where a copy came from, what was pruned, how long things are kept."""

from __future__ import annotations

from typing import NamedTuple


class ForkRow(NamedTuple):
    """Where a copied run came from: the run, the checkpoint's entry there, and when; who wanted it, and its title."""

    run_id: int
    source: int
    seq: int
    at: int
    made_by: str
    title: str


class PruneRow(NamedTuple):
    """Up to which entry a run's journal was pruned, when, and why, in the words people see."""

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
