"""Hypothesis drives the stores and the model: one rule for each operation, its choices drawn, so that it can be shrunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.simulation.differential.coverage import act
from tests.simulation.differential.draws import Drawn
from tests.simulation.differential.operations import OPERATIONS, targets
from tests.simulation.differential.scenes import Plain
from tests.simulation.differential.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DataObject

    from tests.simulation.differential.coverage import Coverage
    from tests.simulation.differential.stores import Stores

STEPS = 30
"""So many operations has an example, at most."""


class History(RuleBasedStateMachine):
    """One history. `stores` and `coverage` are given to a subclass."""

    stores: Stores
    coverage: Coverage

    def __init__(self) -> None:
        """Begin with two runs that are held and one that is new, so that short histories meet something."""
        super().__init__()
        self.world = World(self.stores)
        for name in ("start", "start", "claim", "start"):
            act(self.world, self.coverage, name, None, Plain(10))


def _rule(name: str) -> Callable[[History, DataObject], None]:
    def step(self: History, draw: DataObject) -> None:
        possible = targets(name, self.world)
        if possible:
            act(self.world, self.coverage, name, draw.draw(st.sampled_from(possible)), Drawn(draw))

    step.__name__ = name
    made: Callable[[History, DataObject], None] = rule(draw=st.data())(step)
    return made


def explore(stores: Stores, coverage: Coverage, *, examples: int, first: int, shrink: bool) -> None:
    """Let Hypothesis do so many histories. The same `first` seed gives the same ones."""
    rules: dict[str, Any] = {name: _rule(name) for name in OPERATIONS}
    machine = seed(first)(type("Histories", (History,), {**rules, "stores": stores, "coverage": coverage}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        ),
    )
