"""C19 with an agent: two decisions for one approval of a tool at once.

20 rounds: approve and deny are sent at one moment by two client processes; then the same by one person twice, and again
after the run has ended. Right: one decision wins durably, the other call gets a conflict that names the winner. The tool
runs once if the approval won, else never, and the model is told which. Both attempts are on record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agent.scripted import kept_messages, returns
from tests.cases.clients import clients
from tests.cases.test_c19_two_decisions import ROUNDS, asked, at_once
from torpor.core.ids import run_name
from torpor.engine.queries.show import show

if TYPE_CHECKING:
    from tests.cases.world import World

pytestmark = pytest.mark.slow


def test_one_of_two_decisions_wins(world: World) -> None:
    """In every round exactly one, and what the tool did and the model was told agree with it (G10)."""
    world.worker("agents", lease_seconds=30)
    with clients(world.url, 2) as (ana, ben):
        for number in range(ROUNDS):
            run, wait = asked(world, f"{number}")
            approving, denying = at_once(ana, ben, wait, ("ana", "ben"), ("approve", "deny"))
            assert ("result" in approving) != ("result" in denying), (approving, denying)
            approved = "result" in approving
            loser, winner = (denying, "ana approved") if approved else (approving, "ben denied")
            assert loser["error"] == "Conflict"
            assert loser["message"].startswith(winner)
            assert world.result(run) == "done"
            acted = [call for call in world.outside.all("act") if call.said["what"] == f"{number}"]
            assert len(acted) == (1 if approved else 0)
            told = f"acted on {number}" if approved else "ben denied this call of act. It was not made."
            assert [content for _, content, _ in returns(kept_messages(world.store, run))] == [told]
            [late] = world.store.transact_now(show, run_name("consents", run)).too_late
            assert late.said == ("ben denied" if approved else "ana approved")


def test_a_double_click_and_a_late_one(world: World) -> None:
    """The same person twice at once, and once more after the run has ended: nothing happens twice."""
    world.worker("agents", lease_seconds=30)
    with clients(world.url, 2) as (one, two):
        run, wait = asked(world, "twice")
        answers = at_once(one, two, wait, ("ana", "ana"), ("approve", "approve"))
        assert sorted("result" in answer for answer in answers) == [False, True]
        assert world.result(run) == "done"
        late = one.say("approve", wait=wait, by="ana").answer()
        assert late["error"] == "Conflict"
        assert late["message"].startswith("ana approved")
    assert len(world.outside.all("act")) == 1
    assert len(world.store.transact_now(show, run_name("consents", run)).too_late) == 2
