"""The rules of torpor.core, in every interleaving of the small world: nothing breaks, and the end can always be reached."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.exploration.configurations import DEEP, EVERY_TIME, blind
from tests.exploration.explorer import explore
from tests.exploration.world import Configuration
from torpor.core.effect import Safety

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIGURATIONS = EVERY_TIME + (DEEP if os.environ.get("TORPOR_EXPLORATION") == "deep" else ())


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda configuration: configuration.name)
def test_nothing_breaks(configuration: Configuration, record_property: Callable[[str, object], None]) -> None:
    """No property is broken in any world, and from each one a final state can be reached without further faults."""
    explored = explore(configuration)
    record_property("explored", (configuration.name, explored.states, explored.moves))
    assert not explored.broken, explored.told()


@pytest.mark.parametrize("safety", [Safety.ONCE, Safety.VERIFY])
def test_the_one_stated_hole_is_there(safety: Safety) -> None:
    """A copy made between the gate and the effect's end starts it a second time: G4 says so, and nothing smaller is said."""
    strict = replace(blind(safety), name="strict", no_hole=True)
    explored = explore(strict, until="G4")
    trace = explored.broken["G4 the effect starts twice"]
    assert "W1 is copied at gated" in trace
    assert len(trace) <= 11


@pytest.mark.parametrize("safety", [Safety.ONCE, Safety.VERIFY])
def test_the_hole_is_no_wider(safety: Safety) -> None:
    """Without a copy there is no second start in the very worlds that have the hole."""
    without = replace(blind(safety), faults=blind(safety).faults._replace(copy=0), no_hole=True)
    assert not explore(without).broken


def test_the_world_is_what_it_is() -> None:
    """Two steps and no fault: whoever claims commits twice and ends. An exploration that visits nothing proves nothing."""
    explored = explore(Configuration("calm, pure", parts=("one", "two")))
    assert (explored.states, explored.moves) == (8, 8)
