"""Bugs planted on purpose, in every layer: the simulation finds each, and what it finds can be shrunk to a short story."""

from __future__ import annotations

import pytest

from tests.simulation.harness import Stores, repeat, shrink, story
from tests.simulation.planted import PLANTED, Planted

MOST_SEEDS = 200


def hunt(planted: Planted) -> tuple[int, list[str]]:
    """Return the first seed that finds a bug, and what is broken then."""
    stores = Stores("sqlite")
    for seed in range(planted.seed, planted.seed + MOST_SEEDS):
        with planted.plant():
            outcome = stores.seed(seed)
        if any(one.split(":")[0] in planted.breaks for one in outcome.broken):
            return seed, outcome.broken
    return 0, []


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_it_is_found(planted: Planted) -> None:
    """Within a bounded number of seeds, by the guarantee that it breaks; without the bug the same seed is good."""
    seed, broken = hunt(planted)
    assert seed, f"{planted} was not found in {MOST_SEEDS} seeds"
    sys_said = f"{planted}: {repeat(seed, 'sqlite')}: {broken[0]}"
    assert not Stores("sqlite").seed(seed).broken, sys_said


@pytest.mark.slow
def test_a_failure_shrinks_to_a_story() -> None:
    """What is left fails in the same way, is smaller, and says which runs it needs and what is broken."""
    planted = next(one for one in PLANTED if "newest" in one.what)
    seed, broken = hunt(planted)
    stores = Stores("sqlite")
    plan = stores.draw(seed)
    with planted.plant():
        smaller, outcome = shrink(stores, plan, broken, lambda _: None, most=30)
    assert any(one.startswith("G7:") for one in outcome.broken)
    assert len(smaller.wanted) < len(plan.wanted)
    assert len(smaller.faults) <= len(plan.faults)
    assert any(line.startswith("BROKEN G7") for line in story(smaller, outcome))
