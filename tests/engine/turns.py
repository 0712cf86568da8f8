"""Turns driven by hand: each with one effect, some rows and a checkpoint, so that what was when can be held against a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.engine.world import INTENT, OUTCOME, Hand, proposal
from torpor.core.checkpoint import Mark
from torpor.core.commit import NewRow
from torpor.core.ids import code
from torpor.core.journal import Entry, Kind
from torpor.sdk.rows import Rows, seal
from torpor.store import values

if TYPE_CHECKING:
    from torpor.core.lease import Lease


@dataclass
class Told:
    """A state: which turn made it, and its rows."""

    turn: int
    said: Rows[int] = field(default_factory=Rows)


def turns(one: Hand, run: int, number: int, *, rows: int = 1, keep: int = 10) -> Lease:
    """Claim a run and drive it for some turns, each with one effect, `rows` rows and a checkpoint; return the lease."""
    (claimed,) = one.claim(1)
    assert claimed.run.id == run
    lease, turn, length = claimed.lease, claimed.state.turn, values.rows_in(claimed.state.body).get("said", 0)
    for _ in range(number):
        turn += 1
        state = Told(turn, Rows())
        vars(state.said)["kept"] = length
        state.said.extend(range(rows))
        first, new = seal(state.said)
        body = values.encode(state)
        mark = Mark(turn, one.programs[0], claimed.run.branch)
        entries = [INTENT, OUTCOME, Entry(Kind.CHECKPOINT, mark.text, body)]
        added = [NewRow("said", first + n, values.encode([turn, n])) for n in range(len(new))]
        more = {"input_key": Mark(1, one.programs[0], 0).text} if turn == 2 else {}
        (reply,) = one.commit(proposal(lease, *entries, state_body=body, turn=turn, rows=added, keep=keep, **more))
        assert reply.refused is None
        lease, length = lease._replace(head=lease.head + 3), length + len(new)
    return lease


def str_id(run: int) -> str:
    """Return the letters of a run."""
    return code(run)
