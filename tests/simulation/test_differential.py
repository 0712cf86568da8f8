"""A small model, SQLite and PostgreSQL in step: equal replies, equal rows, and nothing that can occur left out.

`make differential EXAMPLES=500 SEED=7` does more of it. The same numbers do the same; what fails says which they were.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.simulation.differential.coverage import Coverage
from tests.simulation.differential.driver import cover
from tests.simulation.differential.machine import explore
from tests.simulation.differential.operations import OPERATIONS
from tests.simulation.differential.stores import Differs, Stores
from torpor.engine import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SEED = int(os.environ.get("TORPOR_SEED") or 0)
BY_HAND = bool(os.environ.get("TORPOR_EXAMPLES"))
EXAMPLES = int(os.environ.get("TORPOR_EXAMPLES") or 6)


@pytest.fixture
def both(tmp_path: Path, server_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Stores]:
    """Return SQLite in memory and PostgreSQL, in step; an event is handed to one run at a time."""
    monkeypatch.setattr(events, "BATCH", 1)
    stores = Stores(["memory", "postgres"], tmp_path, server_url)
    yield stores
    stores.close()


@contextmanager
def repeatable() -> Iterator[None]:
    """Say with which line a failure comes again."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"make differential EXAMPLES={EXAMPLES} SEED={SEED}")
        raise


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # three thousand operations on two databases, however slow the machine
def test_everything_that_can_occur_agrees(both: Stores) -> None:
    """It ends when every operation has succeeded and every (operation, situation) pair that can occur has occurred."""
    coverage = Coverage()
    with repeatable():
        cover(both, coverage, seed=SEED, histories=EXAMPLES)
        assert coverage.missing() == []
        assert (coverage.unsuccessful(), coverage.unrefused()) == ([], [])


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_any_history_agrees(both: Stores) -> None:
    """Whatever Hypothesis thinks of: the model and both stores say and hold the same after each operation."""
    with repeatable():
        explore(both, Coverage(), examples=2 * EXAMPLES, first=SEED, shrink=BY_HAND)


def test_every_pair_is_judged() -> None:
    """Each pair can occur, or has a reason why not; an operation on a run, or on a lease, meets it almost anywhere."""
    coverage = Coverage()
    possible = {pair for pair, why in coverage.table.items() if not why}
    assert {name for name, _ in coverage.table} == set(OPERATIONS)
    assert len(possible) == len(coverage.missing()) > len(coverage.table) // 2


def test_what_is_declared_impossible_must_not_occur() -> None:
    """A sweep that changed a run which it may not touch is a difference, and so is a lease of a run that nobody claimed."""
    coverage = Coverage()
    with pytest.raises(Differs, match="reap met a run that is completed"):
        coverage.meet("reap", "completed")
    with pytest.raises(Differs, match="step met a run that is queued"):
        coverage.meet("step", "queued")
    coverage.meet("reap", "overdue")
    assert coverage.met["reap", "overdue"] == 1
