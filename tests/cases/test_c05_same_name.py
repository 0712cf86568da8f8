"""C05: a stalled worker comes back under the same name.

Worker "w0" claims a run and is frozen for more than two leases. A second process, also named "w0", claims it and works. The
first is thawed: it renews, releases, and writes a result. Right: all three are refused, because a lease has a token of its
own; the second attempt's lease and result stand; the run is never `running` without a lease; the first attempt stops before
its next effect.

`World.until` asks for a running run without a lease whenever it looks, in one statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torpor.core.commit import Proposal
from torpor.core.journal import Entry, Kind
from torpor.core.lease import Fence
from torpor.core.run import State
from torpor.engine import leases
from torpor.engine.commit import commit

if TYPE_CHECKING:
    from tests.cases.world import Member, World
    from torpor.core.lease import Lease

pytestmark = pytest.mark.slow
LEASE_SECONDS = 60.0


def freeze(world: World, worker: Member) -> Member:
    """Freeze a worker for more than two leases by the database's clock, and return another one of its name."""
    worker.freeze()
    world.pass_time(2 * LEASE_SECONDS + 1)
    return world.worker("acting", name="w0", lease_seconds=LEASE_SECONDS)


def taken_over(world: World, run: int, frozen: Member) -> tuple[Member, Lease]:
    """Freeze a worker; return another one of its name that took the run up, and the old lease."""
    old = world.held(run)
    second = freeze(world, frozen)
    world.until(lambda: (new := world.lease(run)) and new.epoch == 2, "w0 took the run up")
    return second, old


def refused(world: World, old: Lease) -> None:
    """Write everything that the holder of an old lease could: nothing is accepted, nothing changes."""
    before = (world.run(old.run_id), world.held(old.run_id).token, len(world.journal(old.run_id)))

    def write(after: State, entry: Entry) -> Proposal:
        return Proposal(old.run_id, old.token, old.epoch, old.head, [entry], after=after)

    held = [(old.run_id, old.token, old.epoch)]
    assert world.store.transact_now(leases.renew, old.worker, held) == []
    new = world.held(old.run_id)
    assert world.store.transact_now(leases.renew, new.worker, held) == [], "the new holder's number does not help"
    for after, entry in (
        (State.READY, Entry(Kind.NOTE, None, b"")),
        (State.WAITING, Entry(Kind.WAIT, None, b"")),
        (State.COMPLETED, Entry(Kind.OUTCOME, None, b"")),
        (State.RUNNING, Entry(Kind.OUTCOME, "look#1", b"")),
    ):
        [reply] = world.store.transact_now(commit, [write(after, entry)])
        assert reply.refused is Fence.LOST
    assert (world.run(old.run_id), world.held(old.run_id).token, len(world.journal(old.run_id))) == before


@pytest.mark.parametrize("tries", ["result", "renewal"])
def test_a_thawed_worker_is_refused(world: World, tries: str) -> None:
    """Frozen in a step: whichever it tries first, it stops, and what the second one did stands (G1)."""
    outside = world.outside
    outside.hold("look")
    frozen = world.worker("acting", name="w0", lease_seconds=LEASE_SECONDS)
    run = world.start("acts", "once")
    stale = outside.next("look")
    second, old = taken_over(world, run, frozen)
    live = outside.next("look", pid=second.pid)
    if tries == "result":
        stale.answer("from the first")
    frozen.thaw()
    world.until(lambda: "lease lost" in frozen.log, "the first one notices")
    refused(world, old)
    stale.answer("from the first")
    live.answer("from the second")
    world.result(run)
    assert [call.pid for call in outside.all("act")] == [second.pid]
    assert [(line.epoch, line.value) for line in world.entries(run, "outcome") if line.key == "look#1"] == [
        (2, "from the second")
    ]
    assert frozen.process.poll() is None
    assert world.run(run).takeovers == 1


def test_a_worker_thawed_at_the_gate_does_not_act(world: World) -> None:
    """Frozen between its durable intent and its effect: the gate stops it, and a person is asked instead (G4)."""
    outside = world.outside
    outside.hold("gate")
    frozen = world.worker("acting", name="w0", lease_seconds=LEASE_SECONDS)
    run = world.start("acts", "once")
    gate = outside.next("gate")
    second = freeze(world, frozen)
    outside.free("gate")
    world.unknown(run)
    frozen.thaw()
    world.until(lambda: "lease lost" in frozen.log, "the first one notices")
    assert gate.pid == frozen.pid
    assert outside.all("act") == []
    world.answer(run, again=True)
    world.result(run)
    assert len(outside.all("act")) == 1
    assert [line.kind for line in world.journal(run) if line.key == "charge#1"] == [
        *("intent", "wait"),
        *("intent", "outcome"),
    ]
    assert second.process.poll() is None


def test_a_late_attempt_settles_its_own_unknown(world: World) -> None:
    """Frozen while its effect acts: it lost the run, and yet it alone knows what became of it, and says so (G18)."""
    outside = world.outside
    outside.hold("act")
    frozen = world.worker("acting", name="w0", lease_seconds=LEASE_SECONDS)
    run = world.start("acts", "once")
    acting = outside.next("act")
    freeze(world, frozen)
    world.unknown(run)
    frozen.thaw()
    world.until(lambda: "lease lost" in frozen.log, "the first one notices")
    acting.answer("charged, late")
    assert world.result(run) == "charged, late"
    assert len(outside.all("act")) == 1
    assert [line.kind for line in world.journal(run) if line.key == "charge#1"] == ["intent", "wait", "outcome"]
