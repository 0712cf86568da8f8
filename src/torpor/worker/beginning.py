"""How a stretch begins: the question about the run as a whole that is still open, and whether what was claimed can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.journal import Kind
from torpor.core.replay import CallKind
from torpor.core.wait import WaitKind

if TYPE_CHECKING:
    from torpor.errors import StoreError
    from torpor.store.rows import Claimed, WaitRow
    from torpor.worker.bodies import Bodies
    from torpor.worker.roles import Executor

UNREADABLE_SECONDS = 30.0
"""A run whose large values cannot be reached now is looked at again after so long."""


def question(executor: Executor, claimed: Claimed) -> tuple[WaitRow | None, dict[str, Any] | None]:
    """Return the open question about the run as a whole, and the answer to one, if a person gave it."""
    of_calls = {entry.seq for entry in claimed.entries if entry.kind is Kind.WAIT and entry.key is not None}
    for row in list(executor.rows.values()):
        if row.kind is WaitKind.ATTENTION and row.seq not in of_calls:
            if row.answered_at is None:
                return row, None
            executor.commits.draft.over = (*executor.commits.draft.over, row.slot)
            return None, executor.bodies.decode(row.answer)
    return None, None


def spends(claimed: Claimed) -> bool:
    """Whether the turn that is open may have reservations that are not settled."""
    return any(entry.key is not None and entry.key.startswith(f"{CallKind.BUDGET}:") for entry in claimed.entries)


def unreadable(bodies: Bodies, claimed: Claimed) -> StoreError | None:
    """Return why a large value of the run cannot be read, before any of its code runs; None if all are here."""
    entries = (entry.body for entry in claimed.entries)
    return bodies.unreadable([claimed.state.body, *entries, *(signal.body for signal in claimed.unread)])
