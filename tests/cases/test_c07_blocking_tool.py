"""C07: a blocking tool outlives the lease.

A tool blocks its thread for several leases while an idle worker waits for work: a plain function, a mistake inside
`async def`, a computation, and 20 of them at once. Right: each is started once; the lease stays alive, or the run stops
loudly, never silently twice. A cancel is recorded at once and holds no later than the tool's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torpor.core.run import Flag, State

if TYPE_CHECKING:
    from tests.cases.world import World

pytestmark = pytest.mark.slow
LEASE_SECONDS = 1.5
LONG_LEASE_SECONDS = 6.0
"""Where the lease must not be lost: a renewal, at a third of it, may be four seconds late."""


def outlived(world: World, run: int, lease_seconds: float) -> bool:
    """Whether a run has begun to act, and the lease under which it began outlived itself twice."""
    lease = world.lease(run)
    began = next((line for line in world.journal(run) if line.kind == "intent"), None)
    if lease is None or began is None:
        return False
    return lease.epoch == began.epoch and lease.expires_at > began.at + 3 * lease_seconds * 1e6


def both_workers(world: World, lease_seconds: float) -> None:
    """Start the worker that will be busy and one that stays idle."""
    world.worker("acting", name="busy", lease_seconds=lease_seconds)
    world.worker("acting", name="idle", lease_seconds=lease_seconds)


@pytest.mark.parametrize("tool", ["blocks_thread", "blocks_loop"])
def test_a_blocking_tool_is_started_once(world: World, tool: str) -> None:
    """Its lease is renewed beside it, whatever it blocks."""
    world.outside.hold("act")
    both_workers(world, LONG_LEASE_SECONDS)
    run = world.start("uses", tool)
    acting = world.outside.next("act")
    world.until(lambda: outlived(world, run, LONG_LEASE_SECONDS), "the lease lives on")
    acting.answer()
    assert world.result(run) == tool
    assert len(world.outside.all("act")) == 1
    assert world.run(run).takeovers == 0


@pytest.mark.parametrize(
    ("tool", "count"), [("burns_loop", 1), ("burns_thread", 1), ("burns_thread", 20), ("blocks_thread", 20)]
)
def test_a_computing_tool_is_started_once(world: World, tool: str, count: int) -> None:
    """One or twenty that compute, twenty that block: a lease that is lost all the same is a question, never a repeat."""
    world.outside.hold("act")
    both_workers(world, LEASE_SECONDS)
    wanted = [world.start("uses", tool) for _ in range(count)]
    world.until(
        lambda: all(outlived(world, run, LEASE_SECONDS) or loud(world, run) for run in wanted), "they live on, or ask"
    )
    world.outside.free("act")
    world.until(lambda: all(_over(world, run) for run in wanted), "they completed, or ask")
    acted = len(world.outside.all("act"))
    assert acted == len(world.outside.keys("act")), "none was started twice"
    assert sum(world.run(run).state is State.COMPLETED for run in wanted) <= acted <= count


def loud(world: World, run: int) -> bool:
    """Whether a run stopped and asks a person."""
    row = world.run(run)
    return row.state is State.WAITING and Flag.PERSON in row.flags


def _over(world: World, run: int) -> bool:
    return world.run(run).state is State.COMPLETED or loud(world, run)


@pytest.mark.parametrize("tool", ["blocks_thread", "blocks_loop"])
def test_a_cancel_holds_no_later_than_the_tools_end(world: World, tool: str) -> None:
    """It is recorded at once, although the tool blocks; what the tool did is on record (G12)."""
    world.outside.hold("act")
    both_workers(world, 60.0)
    run = world.start("uses", tool)
    acting = world.outside.next("act")
    world.cancel(run)
    assert Flag.CANCEL in world.held(run).flags
    assert world.run(run).state is State.RUNNING
    acting.answer("done")
    assert world.ended(run) is State.CANCELLED
    assert [line.value for line in world.entries(run, "outcome")] == ["done"]
    assert len(world.outside.all("act")) == 1
