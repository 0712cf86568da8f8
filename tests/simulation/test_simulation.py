"""Whole worlds, each out of one seed: workers, wakers and people on one database, with faults; nothing may be broken.

A seed that fails prints the one line that repeats it and shrinks it. What the faults really hit is counted, too: one that never
strikes proves nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.simulation import faults
from tests.simulation.harness import Record, Stores, repeat
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 20
COUNTED = 80
"""So many seeds are counted by one test."""


def judged(record: Record, kind: str) -> None:
    """Fail with what repeats it, if a seed failed."""
    said = [f"{repeat(seed, kind)}   # {broken[0]}" for seed, broken in record.failed.items()]
    assert not said, "\n".join(said)


def run(stores: Stores, first: int, count: int) -> Record:
    """Run some seeds."""
    record = Record()
    for seed in range(first, first + count):
        record.add(stores.seed(seed))
    return record


@pytest.mark.slow
def test_every_fault_strikes_and_nothing_breaks() -> None:
    """Each kind of fault struck, and each moment at which one may strike was struck."""
    record = run(Stores("sqlite"), 1, COUNTED)
    judged(record, "sqlite")
    counts = record.by_kind()
    table = "\n".join(record.table())
    assert all(counts.values()), f"a fault that never happens proves nothing:\n{table}"
    struck = {moment for (_, moment), count in record.struck.items() if count}
    assert struck >= {moment for moment, weight in faults.MOMENTS.items() if weight >= 3}, table
    assert record.copies >= 2
    assert {"completed", "cancelled"} <= {state for state, count in record.runs.items() if count}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(COUNTED + 1, 221, CHUNK))
def test_nothing_breaks_in_memory(first: int) -> None:
    """Twenty worlds on SQLite in memory."""
    judged(run(Stores("sqlite"), first, CHUNK), "sqlite")


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 6, 11, 16])
def test_nothing_breaks_on_a_server(server_url: Callable[[str], str], first: int) -> None:
    """Five smaller worlds on PostgreSQL."""
    judged(run(Stores("postgres", server_url("postgres")), first, 5), "postgres")


@pytest.mark.slow
def test_a_seed_is_one_history() -> None:
    """The same seed gives the same history, in this process and in another one whose sets have another order."""
    stores = Stores("sqlite")
    mine = stores.seed(28)
    assert stores.seed(28).digest == mine.digest
    found = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", "28"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert f"digest {mine.digest}" in found.stdout, found.stdout + found.stderr
    assert stores.seed(29).digest != mine.digest


def test_a_world_that_falls_over_is_a_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted under its seed, and the seeds behind it have their turn."""

    def fall(_world: World) -> None:
        raise KeyError(17)

    monkeypatch.setattr(World, "_judge", fall)
    record = run(Stores("sqlite"), 1, 2)
    assert record.failed == {1: ["crash: KeyError: 17"], 2: ["crash: KeyError: 17"]}
