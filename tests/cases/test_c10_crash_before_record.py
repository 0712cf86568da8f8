"""C10: crash after the effect, before the record.

A turn calls effect 1, which completes and is saved, and effect 2, which acts; then its worker is killed before that is
saved, and another worker takes over. Right: effect 1 is never repeated. Effect 2, if it is safe to repeat with a key, is
called again with the same key, so the far side counts one. If it is not, it is not repeated: it becomes `unknown`, and a
person settles it: it happened, do it again, it failed.

(With a workspace put to sleep in between: that belongs to the order that brings workspaces.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from torpor.core.run import State

if TYPE_CHECKING:
    from tests.cases.outside import Call
    from tests.cases.world import World

pytestmark = pytest.mark.slow


def killed_after_act(world: World, safety: str) -> tuple[int, Call]:
    """Kill a worker whose second effect has acted, and start another one; return the run and what was said."""
    outside = world.outside
    outside.hold("act")
    worker = world.worker("acting", name="w0", lease_seconds=30)
    run = world.start("acts_twice", safety)
    acted = outside.next("act")
    world.worker("acting", name="w1", lease_seconds=30)
    worker.kill()
    return run, acted


def test_a_keyed_effect_keeps_its_key(world: World) -> None:
    """It is called again, with the same key: for a far side that knows keys it happened once (G5)."""
    run, acted = killed_after_act(world, "keyed")
    again = world.outside.next("act", 2)
    again.answer("paid")
    assert world.result(run) == "paid"
    assert again.pid != acted.pid
    assert len(world.outside.all("act")) == 2
    assert world.outside.keys("act") == {acted.said["key"]}
    assert len(world.outside.all("first")) == 1
    assert world.run(run).takeovers == 1


@pytest.mark.parametrize(
    ("answer", "result", "calls"),
    [
        ({"happened": "receipt 7"}, "receipt 7", 1),
        ({"again": True}, "charged", 2),
        ({"fail": "the bank says no"}, "Settled: the bank says no", 1),
    ],
    ids=["happened", "again", "fail"],
)
def test_a_once_effect_is_unknown(world: World, answer: dict[str, Any], result: str, calls: int) -> None:
    """It is not repeated: a person is asked, and their word decides (G4)."""
    run, _ = killed_after_act(world, "once")
    world.unknown(run)
    assert world.run(run).state is State.WAITING
    assert len(world.outside.all("act")) == 1
    world.answer(run, **answer)
    if calls == 2:
        world.outside.next("act", 2).answer("charged")
    assert world.result(run) == result
    assert len(world.outside.all("act")) == calls
    assert len(world.outside.all("first")) == 1
