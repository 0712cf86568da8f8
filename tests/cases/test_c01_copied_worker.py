"""C01: a machine is copied while its worker holds a lease.

A worker claims a run and is about to call a counted effect. It is duplicated there, so that both copies hold the same owner
name, fence and memory, and both go on: in lockstep, and with one far behind. Right: the intent to act is a conditional
durable write, so only one gets past it. The counter says 1, no entry is recorded twice, the loser stops with a reason before
any effect. Ids made after the copy differ, the key of the one call stays the same. An equal owner name with an equal fence
is not enough.

Processes copy themselves by a bare system call, past every hook. Copies of a whole machine, in which nothing differs at
all, are stood for by `twins.Twins`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases.twins import Twins
from tests.cases.world import standing_still
from tests.worker.counter import COUNTER

if TYPE_CHECKING:
    from tests.cases.outside import Call
    from tests.cases.world import Member, World
    from tests.stores import Place


def copied(world: World, place: str, safety: str) -> tuple[Member, int, Call, Call]:
    """Return a worker that was copied at a place, its run, and the two of them, the original first, both standing still."""
    world.outside.hold("copied")
    worker = world.worker("copied")
    run = world.start("copies", {"place": place, "safety": safety})
    both = [world.outside.next("copied", number) for number in (1, 2)]
    original, copy = sorted(both, key=lambda call: bool(call.said["is_copy"]))
    assert original.pid == worker.pid != copy.pid
    assert copy.said["is_copy"]
    return worker, run, original, copy


def ends(world: World, copy: Call) -> None:
    """Wait until a copy has ended."""
    world.until(lambda: standing_still(copy.pid), "the copy ended")


@pytest.mark.slow
@pytest.mark.parametrize("pace", ["lockstep", "copy behind", "original behind"])
@pytest.mark.parametrize(
    ("place", "safety"), [("flow", "once"), ("gate", "once"), ("gate", "keyed"), ("acted", "once")]
)
def test_only_one_copy_acts(world: World, place: str, safety: str, pace: str) -> None:
    """Copied before the intent, after its answer, and after the act: one goes on, the other says why it stops."""
    worker, run, original, copy = copied(world, place, safety)
    (copy if pace == "original behind" else original).answer()
    if pace == "copy behind":
        world.ended(run)
    elif pace == "original behind":
        ends(world, copy)
    original.answer()
    copy.answer()
    [key, *_] = world.result(run)
    ends(world, copy)
    assert [(call.pid, call.said["key"]) for call in world.outside.all("act")] == [(worker.pid, key)]
    journal = world.journal(run)
    assert {line.epoch for line in journal} == {1}
    assert [(line.kind, line.key) for line in journal if line.key in {"look#1", f"{acts(safety)}#1"}] == [
        ("outcome", "look#1"),
        ("intent", f"{acts(safety)}#1"),
        ("outcome", f"{acts(safety)}#1"),
    ]
    assert f"this process is a copy of worker process {worker.pid}" in worker.log
    assert f"pid={copy.pid}" in worker.log
    assert worker.process.poll() is None


def acts(safety: str) -> str:
    """Return the effect of the app that has a safety."""
    return "charge" if safety == "once" else "pay"


@pytest.mark.slow
def test_a_copy_is_a_new_incarnation(world: World) -> None:
    """What is drawn after the copy differs: ids, tokens, the name of the life (G19)."""
    _, run, original, copy = copied(world, "flow", "once")
    mine, its = original.said["drawn"], copy.said["drawn"]
    assert mine.keys() == its.keys() >= {"uuid", "token", "incarnation", "ctx_uuid"}
    assert [name for name in mine if mine[name] == its[name]] == []
    original.answer()
    copy.answer()
    assert world.result(run)[1] == mine["ctx_uuid"]


@pytest.mark.parametrize("safety", ["once", "keyed"])
@pytest.mark.parametrize("first", ["original", "copy", "both at once"])
def test_an_equal_name_and_fence_are_not_enough(place: Place, safety: str, first: str) -> None:
    """Two machines, nothing differs, both are about to write the intent: the first one does, whichever it is."""
    twins = Twins(place)
    twins.hold("intent")
    twins.drive(safety, first)
    assert COUNTER.count == 1
    assert sorted(twins.ends.values()) == ["left", "lost"]
    if first != "both at once":
        assert twins.ends[first] == "left"
    assert twins.recorded() == ["intent", "outcome"]
    assert len(set(twins.drawn)) == 2, "each drew an id of its own"


@pytest.mark.parametrize("first", ["original", "copy"])
def test_a_machine_copied_after_the_answer_does_not_pass_the_gate(place: Place, first: str) -> None:
    """Both have read that the intent is durable: only one of them has the life lock, and a `once` effect asks it."""
    twins = Twins(place, copy_reads_answer=True)
    twins.hold("gate")
    twins.drive("once", first)
    assert COUNTER.count == 1
    assert twins.ends == {"original": "left", "copy": "lost"}
    assert twins.recorded() == ["intent", "outcome"]


@pytest.mark.parametrize("first", ["original", "copy"])
def test_a_keyed_effect_of_two_machines_is_one(place: Place, first: str) -> None:
    """Both are past the gate of a `keyed` effect: the far side sees one key, one outcome is recorded (G5)."""
    twins = Twins(place, copy_reads_answer=True)
    twins.hold("outcome")
    twins.drive("keyed", first)
    assert (COUNTER.count, COUNTER.keys) == (2, 1)
    assert sorted(twins.ends.values()) == ["left", "lost"]
    assert twins.ends[first] == "left"
    assert twins.recorded() == ["intent", "outcome"]
