"""C21 with agents: children that outlive a cancelled parent.

An agent has asked others, each a child run: one is inside a tool, one sleeps for an hour, one is queued, and one has asked
another one that waits for an approval. The parent is cancelled; the process that does the cascade is killed half-way;
meanwhile the running child's model calls for another child. Right: within a bounded time all are cancelled, no further
tool starts, the new child is refused, the open approval is closed, and no live run has a cancelled parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases.test_c21_children_outlive import (
    BOUND_SECONDS,
    ROLE,
    approvals,
    by_name,
    everyone,
    tried_to_spawn,
)
from tests.patience import PATIENCE_SECONDS
from torpor import clock
from torpor.agent import state  # noqa: F401 - what a journal of an agent's holds is read
from torpor.core.run import Flag, State
from torpor.engine import runs

if TYPE_CHECKING:
    from tests.cases.world import World

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def settled_down(world: World) -> bool:
    """Whether the whole family is where it should be before the cancel."""
    found = by_name(world)
    asleep = [run for name in ("asks", "middle", "naps", "parent") for run in found.get(name, [])]
    return len(asleep) == 4 and all(run.state is State.WAITING for run in asleep) and len(approvals(world)) == 1


def test_a_cascade_is_finished_by_somebody_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole story, with real processes."""
    world.store.transact_now(runs.register, [("queued", 1, "tests.cases.apps.family_agents:queued")])
    world.outside.hold("tool")
    monkeypatch.setenv(ROLE, "works")
    monkeypatch.setenv("TORPOR_CASES_ROUNDS", "1")
    world.worker("family_agents", name="works")
    top = world.start("parent", "go")
    tool = world.outside.next("tool")
    world.until(lambda: settled_down(world), "the family is asleep, but for one in a tool and one that is queued")
    found = by_name(world)
    (queued,), (uses,), (naps,), (middle,), (asks,) = (
        found[name] for name in ("queued", "uses", "naps", "middle", "asks")
    )
    assert (queued.state, world.run(uses.id).state) == (State.READY, State.RUNNING)
    assert {run.parent for run in (queued, uses, naps, middle)} == {top}
    assert asks.parent == middle.id

    monkeypatch.setenv(ROLE, "cascades")
    cascading = world.worker("family_agents", name="cascades")
    said = world.store.transact_now(runs.cancel, top)
    assert said.descendants == 5
    cascading.process.wait(PATIENCE_SECONDS)
    family = (naps, middle, queued, uses, asks)
    reached = [run.id for run in family if Flag.CANCEL in world.run(run.id).flags]
    assert len(reached) == 1, "it was killed half-way"
    assert uses.id not in reached

    tool.answer("found")
    world.until(lambda: tried_to_spawn(world, uses.id), "the running child has asked for another child")
    assert [run.id for run in by_name(world)["asks"]] == [asks.id], "and got none"

    monkeypatch.setenv(ROLE, "restarted")
    world.worker("family_agents", name="restarted")
    began = clock.monotonic()
    for run in (top, *(run.id for run in family)):
        assert world.ended(run) is State.CANCELLED
    assert clock.monotonic() - began < BOUND_SECONDS
    assert approvals(world) == set()
    assert len(world.outside.all("tool")) == 1
    assert world.outside.all("act") == []
    assert [run for run in everyone(world) if not run.state.final] == []
    world.until(lambda: not world.store.transact_now(lambda tx: tx.undelivered()), "nothing is left to be done")
