"""What every batch of fenced writes must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def once_each(runs: Sequence[int]) -> None:
    """Check that a batch of fenced writes names each run once: what a second one would find depends on the first."""
    if len(set(runs)) != len(runs):
        raise AssertionError(f"G1: a batch writes to one run twice: {sorted(runs)}")
