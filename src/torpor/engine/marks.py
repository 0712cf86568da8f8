"""Operations about marks: a beacon in the store (`rouse.beacon` says what each party may believe)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.rouse import Mark

if TYPE_CHECKING:
    from torpor.store.protocol import Tx


def read(tx: Tx, machine: str) -> Mark | None:
    """Return a machine's mark, None if it has none. Raises ValueError if somebody else wrote something there."""
    body = tx.mark(machine)
    return None if body is None else Mark.from_json(body)


def compare_and_set(tx: Tx, machine: str, expected: Mark | None, new: Mark) -> bool:
    """Set a machine's mark if it is still at `expected` (lineage and counter); whether it was."""
    at = None if expected is None else (expected.lineage, expected.counter)
    return tx.set_mark(machine, at, (new.lineage, new.counter), new.as_json())
