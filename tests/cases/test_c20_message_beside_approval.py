"""C20: a plain message while an approval is open.

A run waits for approval of X. "please also check Y" comes, twice, from two clients; every process is started again; then X
is approved, or denied, or expires. Right: the message is kept, never counted as a decision. Afterwards Y is delivered
once, in order. Nothing needs repair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.clients import clients
from torpor.core.ids import run_name
from torpor.core.run import State
from torpor.core.wait import WaitKind

if TYPE_CHECKING:
    from tests.cases.world import World

pytestmark = pytest.mark.slow
EXPIRES_SECONDS = 3600.0


def asks(world: World, run: int) -> bool:
    """Whether the run was put away with an open approval."""
    rows = world.store.transact_now(lambda tx: tx.waits([run]))
    open_one = any(row.kind is WaitKind.APPROVAL and row.answered_at is None for row in rows)
    return open_one and world.run(run).state is State.WAITING


@pytest.mark.parametrize("end", ["approve", "deny", "expire"])
def test_a_message_is_no_decision(world: World, end: str) -> None:
    """It waits for its turn, whatever becomes of the approval and of every process (G7, G10)."""
    first = world.worker("waiting", lease_seconds=30)
    run = world.start("consents_then_hears", EXPIRES_SECONDS if end == "expire" else None)
    name = run_name("consents_then_hears", run)
    world.until(lambda: asks(world, run), "X is asked")
    with clients(world.url, 2) as (one, two):
        assert one.say("signal", run=name, name="also", value="check Y", key="y").answer() == {"result": True}
        assert two.say("signal", run=name, name="also", value="check Z").answer() == {"result": True}
        assert one.say("signal", run=name, name="also", value="check Y", key="y").answer() == {"result": False}
    first.kill()
    if end == "expire":
        world.pass_time(EXPIRES_SECONDS)
    world.worker("waiting", name="w1", lease_seconds=30)
    if end != "expire":
        world.until(lambda: asks(world, run), "X is still asked")
        with clients(world.url, 1) as (one,):
            answer: dict[str, Any] = one.say(end, wait=f"w-{name.rpartition('-')[2]}", by="ana").answer()
            assert "result" in answer, answer
    said = {"approve": True, "deny": False, "expire": "expired"}[end]
    assert world.result(run) == [said, "check Y", "check Z"]
    assert len(world.outside.all("act")) == (1 if end == "approve" else 0)
