"""C21: children that outlive a cancelled parent.

A parent has descendants: one inside a tool, one waiting on a 1 h timer, one queued, one whose own child waits for an
approval. The parent is cancelled; the process that does the cascade is killed half-way; meanwhile the running child tries
to start another child. Right: within a bounded time all are cancelled, no further tool starts, the new child is refused,
open approvals are closed. Only children declared independent go on. After restart no live run has a cancelled parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import clock
from torpor.core.run import Flag, State
from torpor.engine import runs
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from tests.cases.world import World
    from torpor.store.rows import RunRow

pytestmark = [pytest.mark.slow, pytest.mark.alone]
ROLE = "TORPOR_CASES_ROLE"
BOUND_SECONDS = 5.0
"""What G12 allows, counted from when somebody is there to go on."""


def everyone(world: World) -> list[RunRow]:
    """Return all runs, oldest first."""
    rows: list[RunRow] = world.store.transact_now(lambda tx: tx.list_runs(RunFilter(limit=100)))
    return rows[::-1]


def by_name(world: World) -> dict[str, list[RunRow]]:
    """Return all runs by program."""
    programs = {row.id: row.name for row in world.store.transact_now(lambda tx: tx.programs())}
    found: dict[str, list[RunRow]] = {}
    for run in everyone(world):
        found.setdefault(programs[run.program], []).append(run)
    return found


def approvals(world: World) -> set[int]:
    """Return the runs whose approval is open."""
    return {wait.run_id for wait in world.store.transact_now(lambda tx: tx.people_waits(limit=10))}


def settled_down(world: World) -> bool:
    """Whether the whole family is where it should be before the cancel."""
    found = by_name(world)
    asleep = [run for name in ("asks", "middle", "naps", "parent") for run in found.get(name, [])]
    return len(asleep) == 6 and all(run.state is State.WAITING for run in asleep) and len(approvals(world)) == 2


def test_a_cascade_is_finished_by_somebody_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole story, with real processes."""
    world.store.transact_now(runs.register, [("queued", 1, "tests.cases.apps.family:queued")])
    world.outside.hold("tool")
    monkeypatch.setenv(ROLE, "works")
    world.worker("family", name="works")
    top = world.start("parent")
    tool = world.outside.next("tool")
    world.until(lambda: settled_down(world), "the family is asleep, but for one in a tool and one that is queued")
    found = by_name(world)
    (queued,), (uses,), (naps,) = found["queued"], found["uses"], found["naps"]
    free = next(run for run in found["middle"] if Flag.INDEPENDENT in run.flags)
    bound = next(run for run in found["middle"] if run.id != free.id)
    free_asks, bound_asks = (next(r for r in found["asks"] if r.parent == m.id) for m in (free, bound))
    assert (queued.state, world.run(uses.id).state) == (State.READY, State.RUNNING)

    monkeypatch.setenv(ROLE, "cascades")
    cascading = world.worker("family", name="cascades")
    said = world.store.transact_now(runs.cancel, top)
    assert said.descendants == 5
    cascading.process.wait(PATIENCE_SECONDS)
    family = (naps, bound, queued, uses, bound_asks)
    reached = [run.id for run in family if Flag.CANCEL in world.run(run.id).flags]
    assert reached == [naps.id], "it was killed half-way"

    tool.answer()
    world.until(lambda: tried_to_spawn(world, uses.id), "the running child has asked for another child")
    assert by_name(world)["asks"] == [world.run(run.id) for run in found["asks"]], "and got none"

    monkeypatch.setenv(ROLE, "restarted")
    world.worker("family", name="restarted")
    began = clock.monotonic()
    for run in (top, *(run.id for run in family)):
        assert world.ended(run) is State.CANCELLED
    assert clock.monotonic() - began < BOUND_SECONDS
    assert len(by_name(world)["asks"]) == 2
    assert approvals(world) == {free_asks.id}
    assert len(world.outside.all("tool")) == 1
    assert world.outside.all("act") == []
    live = [run for run in everyone(world) if not run.state.final]
    assert {run.id for run in live} == {free.id, free_asks.id}
    ended = {run.id for run in everyone(world) if run.state.final}
    assert [run.id for run in live if run.parent in ended and Flag.INDEPENDENT not in run.flags] == []
    world.until(lambda: not world.store.transact_now(lambda tx: tx.undelivered()), "nothing is left to be done")


def tried_to_spawn(world: World, run: int) -> bool:
    """Whether a run's wish for a child is in its journal, and was looked at."""
    asked = [line for line in world.journal(run) if line.kind == "wait" and line.key and line.key.startswith("asks")]
    return bool(asked) and world.store.transact_now(lambda tx: tx.outbox(limit=9)) == []
