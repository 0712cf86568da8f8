"""What a run that is cancelled needs to know before it ends: why, and what is to be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torpor.store.protocol import Tx


class ToUndo(NamedTuple):
    """Why a run is cancelled, empty if nobody said it, and the bodies of its compensations, oldest first, by entry."""

    reason: str
    registered: dict[int, bytes]
    blobs: dict[bytes, bytes]


def to_undo(tx: Tx, run_id: int) -> ToUndo:
    """Read it. After a cancel nothing is registered any more, so every stretch reads the same."""
    registered = {row.n: row.body for row in tx.compensations(run_id)}
    named = sorted({body[1:] for body in registered.values() if body[:1] == b"\x00"})
    reason = tx.cancels([run_id]).get(run_id, "")
    return ToUndo(reason, registered, tx.get_blobs(named, later=True) if named else {})
