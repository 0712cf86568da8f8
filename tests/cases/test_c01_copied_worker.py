"""C01: a machine is copied while its worker holds a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases.world import standing_still

if TYPE_CHECKING:
    from tests.cases.world import World

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("pace", ["lockstep", "copy behind"])
@pytest.mark.parametrize("safety", ["once", "keyed"])
@pytest.mark.parametrize("place", ["step", "flow", "gate", "acted"])
def test_only_one_copy_acts(world: World, place: str, safety: str, pace: str) -> None:
    """x"""
    outside = world.outside
    outside.hold("copied")
    worker = world.worker("copied", lease_seconds=2.0)
    run = world.start("copies", {"place": place, "safety": safety})
    both = [outside.next("copied", number) for number in (1, 2)]
    original, copy = sorted(both, key=lambda call: call.said["is_copy"])
    assert (original.pid, copy.said["is_copy"]) == (worker.pid, True)
    original.answer()
    if pace == "copy behind":
        world.ended(run)
    copy.answer()
    key, _ = world.result(run)
    world.until(lambda: standing_still(copy.pid), "the copy ended")
    assert [call.said["key"] for call in outside.all("act")] == [key]
    print(worker.log)
