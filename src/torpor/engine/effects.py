"""Effects: the gate's look at the store, effects inside the commit, and settling late.

The gate is the last look before an effect starts; `core.effect.gate` decides on what is read here (G2, G4, G12).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torpor.core.journal import Entry, Kind
from torpor.core.lease import Fence, fence
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.engine.commit import LEASE_MICROS, Reply, commit
from torpor.store.rows import RunChange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.core.commit import Proposal
    from torpor.core.lease import Lease
    from torpor.store.protocol import Tx


def look(tx: Tx, ids: Sequence[int]) -> dict[int, Lease]:
    """Return the leases of runs as they are now."""
    return tx.leases(sorted(ids))


def commit_with(
    tx: Tx, proposal: Proposal, key: str, function: Callable[[Any], bytes], *, lease_micros: int = LEASE_MICROS
) -> tuple[Proposal, Reply]:
    """Run a transactional effect inside the transaction that records its outcome: both happen or neither (G6).

    The lease is locked and the fence asked before the author's writes; `function` gets the lent connection and returns
    the outcome's body; the proposal comes back with it. What it raises rolls everything back.
    """
    lease = tx.leases([proposal.run_id], lock=True).get(proposal.run_id)
    reason = fence(lease, token=proposal.token, epoch=proposal.epoch, head=proposal.head, has_intent=True)
    if lease is None or reason is not Fence.HOLDS:
        return proposal, Reply(tx.now(), lease.flags if lease is not None else Flag.NONE, State.RUNNING, reason)
    with tx.lend() as connection:
        body = function(connection)
    whole = replace(
        proposal, entries=[*proposal.entries, Entry(Kind.OUTCOME, key, body)]
    )  # anew: this may be run again
    return whole, commit(tx, [whole], lease_micros=lease_micros)[0]


def settle_late(tx: Tx, run_id: int, seq: int, answer: bytes) -> bool:
    """Let the attempt that wrote an intent settle its own `unknown` after all (G18). False: it was settled before."""
    run = tx.get_runs([run_id], lock=True).get(run_id)
    if run is None or run.state.final:
        return False
    open_waits = [w for w in tx.waits([run_id]) if w.kind is WaitKind.ATTENTION and w.answered_at is None]
    places = tx.entries([(run_id, w.seq) for w in open_waits])
    intent = tx.entries([(run_id, seq)]).get((run_id, seq))
    for wait in open_waits:
        entry = places.get((run_id, wait.seq))
        mine = entry is not None and intent is not None and entry.key == intent.key and entry.seq > seq
        if mine and tx.answer_wait(run_id, wait.slot, wait.seq, answer):
            waiting = run.state is State.WAITING
            tx.change_runs(
                [RunChange(run_id, State.READY if waiting else None, tx.now() if waiting else None, inbox=1)]
            )
            tx.hint("ready")
            return True
    return False
