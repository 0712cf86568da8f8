"""C19: two decisions for one approval at once.

20 rounds: approve and deny are sent at one moment by two client processes; then the same by one person twice, and again
after the run has ended. Right: one decision wins durably, the other call gets a conflict that names the winner. The effect
happens once if the approval won, else never. Both attempts are on record.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.clients import Asking, clients
from torpor.core.ids import run_name, wait_name
from torpor.core.wait import WaitKind
from torpor.engine.queries.show import show

if TYPE_CHECKING:
    from tests.cases.world import World
    from torpor.store.rows import WaitRow

pytestmark = pytest.mark.slow
ROUNDS = 20


def asked(world: World, what: str) -> tuple[int, str]:
    """Start a run and wait until it asks; return it, and its wait."""
    run = world.start("consents", what)

    def open_wait() -> WaitRow | None:
        rows = world.store.transact_now(lambda tx: tx.waits([run]))
        return next((row for row in rows if row.kind is WaitKind.APPROVAL), None)

    found: WaitRow = world.until(open_wait, "a person is asked")
    return run, wait_name(run, found.seq)


def at_once(first: Asking, second: Asking, wait: str, by: tuple[str, str], verbs: tuple[str, str]) -> Any:
    """Let two clients decide at one moment; return what came of it."""
    first.say(verbs[0], wait=wait, by=by[0])
    second.say(verbs[1], wait=wait, by=by[1])
    return first.answer(), second.answer()


def test_one_of_two_decisions_wins(world: World) -> None:
    """In every round exactly one, and everything agrees with it (G10)."""
    world.worker("waiting", lease_seconds=30)
    won: Counter[str] = Counter()
    with clients(world.url, 2) as (ana, ben):
        for number in range(ROUNDS):
            run, wait = asked(world, f"{number}")
            approving, denying = at_once(ana, ben, wait, ("ana", "ben"), ("approve", "deny"))
            assert ("result" in approving) != ("result" in denying), (approving, denying)
            approved = "result" in approving
            loser, winner = (denying, "ana approved") if approved else (approving, "ben denied")
            assert loser["error"] == "Conflict"
            assert loser["message"].startswith(winner)
            assert world.result(run) == [approved, "ana" if approved else "ben"]
            acted = [call for call in world.outside.all("act") if call.said["what"] == f"{number}"]
            assert len(acted) == (1 if approved else 0)
            [late] = world.store.transact_now(show, run_name("consents", run)).too_late
            assert late.said == ("ben denied" if approved else "ana approved")
            won[winner] += 1
    assert sum(won.values()) == ROUNDS


def test_a_double_click_and_a_late_one(world: World) -> None:
    """The same person twice at once, and once more after the run has ended: nothing happens twice."""
    world.worker("waiting", lease_seconds=30)
    with clients(world.url, 2) as (one, two):
        run, wait = asked(world, "twice")
        answers = at_once(one, two, wait, ("ana", "ana"), ("approve", "approve"))
        assert sorted("result" in answer for answer in answers) == [False, True]
        assert world.result(run) == [True, "ana"]
        late = one.say("approve", wait=wait, by="ana").answer()
        assert late["error"] == "Conflict"
        assert late["message"].startswith("ana approved")
    assert len(world.outside.all("act")) == 1
    assert len(world.store.transact_now(show, run_name("consents", run)).too_late) == 2
