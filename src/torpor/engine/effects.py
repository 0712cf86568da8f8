"""Effects: the gate's look at the store, effects inside the commit, and settling late.

The gate is the last look before an effect starts; `core.effect.gate` decides on what is read here (G2, G4, G12).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.journal import Entry, Kind
from torpor.core.lease import Fence, fence
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.engine import streams
from torpor.engine.commit import LEASE_MICROS, Reply, commit
from torpor.engine.family import falling
from torpor.store.rows import RunChange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.core.commit import NewWait, Proposal
    from torpor.core.lease import Lease
    from torpor.store.protocol import Tx


def look(tx: Tx, ids: Sequence[int]) -> dict[int, Lease]:
    """Return the leases of runs as they are now.

    That of a child whose parent, or whoever that one ends with, ended or is being cancelled says that cancel was asked,
    also before the cascade has reached it: nothing more is started below a cancel that was acknowledged (G12).
    """
    leases = tx.leases(sorted(ids))
    children = [run_id for run_id, lease in leases.items() if Flag.CHILD in lease.flags]
    doomed = falling(tx, list(tx.get_runs(children).values())) if children else set()
    return {
        run_id: lease._replace(flags=lease.flags | Flag.CANCEL) if run_id in doomed else lease
        for run_id, lease in leases.items()
    }


class Inside(NamedTuple):
    """What was done inside a commit adds to it. `waits` name their entries by place among these, from 1."""

    entries: Sequence[Entry]
    waits: Sequence[NewWait] = ()
    closes: Sequence[tuple[int, int]] = ()
    over: Sequence[int] = ()


def commit_inside(
    tx: Tx,
    proposal: Proposal,
    work: Callable[[Tx], Inside | None],
    closing: tuple[int, int] | None = None,
    *,
    lease_micros: int = LEASE_MICROS,
) -> tuple[Proposal, Reply | None]:
    """Do something inside the transaction that records it: both happen or neither (G6).

    The lease is locked and everything that could refuse the commit is asked before `work`; the proposal comes back with
    what that added. `closing` is a person's wait (slot, seq) that it may close. A reply of None: there was nothing to
    record, and nothing of the proposal was written. What `work` raises rolls everything back.
    """
    closes = [*proposal.closes, *(() if closing is None else [closing])]
    if closes or proposal.after is not State.RUNNING:
        tx.get_runs([proposal.run_id], lock=True)  # a run's row before its lease
    lease = tx.leases([proposal.run_id], lock=True).get(proposal.run_id)
    reason = fence(
        lease, token=proposal.token, epoch=proposal.epoch, head=proposal.head, has_intent=not proposal.undoing
    )
    if lease is None or reason is not Fence.HOLDS:
        return proposal, Reply(tx.now(), lease.flags if lease is not None else Flag.NONE, State.RUNNING, reason)
    if proposal.not_before and tx.now() < proposal.not_before:
        return proposal, Reply(tx.now(), lease.flags, State.RUNNING, early=True)
    if proposal.stream is not None and streams.behind(tx, [proposal])[1]:
        return proposal, Reply(tx.now(), lease.flags, State.RUNNING, Fence.LOST)
    if closes:
        decided = {(w.slot, w.seq) for w in tx.waits([proposal.run_id]) if w.answered_at is not None}
        if decided.intersection(closes):
            return proposal, Reply(tx.now(), lease.flags, State.RUNNING, answered=True)
    added = work(tx)
    if added is None:
        return proposal, None
    first = len(proposal.entries)
    whole = replace(  # anew: this may be run again
        proposal,
        entries=[*proposal.entries, *added.entries],
        waits=[*proposal.waits, *(wait._replace(seq=first + wait.seq) for wait in added.waits)],
        closes=[*proposal.closes, *added.closes],
        over=[*proposal.over, *added.over],
    )
    reply = commit(tx, [whole], lease_micros=lease_micros)[0]
    if reply.refused is not None or reply.answered or reply.early:
        message = f"G6: a commit that nothing could refuse was refused: run {proposal.run_id}, {reply}"
        raise AssertionError(message)
    return whole, reply


def commit_with(
    tx: Tx, proposal: Proposal, key: str, function: Callable[[Any], bytes], *, lease_micros: int = LEASE_MICROS
) -> tuple[Proposal, Reply]:
    """Run a transactional effect inside the transaction that records its outcome: both happen or neither (G6).

    `function` gets the lent connection and returns the outcome's body.
    """

    def work(tx: Tx) -> Inside:
        with tx.lend() as connection:
            return Inside([Entry(Kind.OUTCOME, key, function(connection))])

    whole, reply = commit_inside(tx, proposal, work, lease_micros=lease_micros)
    if reply is None:
        message = "G6: an effect inside a commit always has an outcome"
        raise AssertionError(message)
    return whole, reply


def settle_late(tx: Tx, run_id: int, seq: int, answer: bytes) -> bool:
    """Let the attempt that wrote an intent settle its own `unknown` after all (G18). False: it was settled before."""
    run = tx.get_runs([run_id], lock=True).get(run_id)
    if run is None or run.state.final:
        return False
    if seq <= tx.states([run_id])[run_id].seq:
        return False  # the turn it belonged to is over, or was left by a rewind: an equal key there is another call
    open_waits = [w for w in tx.waits([run_id]) if w.kind is WaitKind.ATTENTION and w.answered_at is None]
    places = tx.entries([(run_id, w.seq) for w in open_waits])
    intent = tx.entries([(run_id, seq)]).get((run_id, seq))
    if intent is None or intent.kind is not Kind.INTENT:
        return False  # trouble of the whole run has no key either, and nobody settles it but a person
    for wait in open_waits:
        entry = places.get((run_id, wait.seq))
        mine = entry is not None and entry.key == intent.key and entry.seq > seq
        if mine and tx.answer_wait(run_id, wait.slot, wait.seq, answer):
            waiting = run.state is State.WAITING
            tx.change_runs(
                [RunChange(run_id, State.READY if waiting else None, tx.now() if waiting else None, inbox=1)]
            )
            tx.hint("ready")
            return True
    return False
