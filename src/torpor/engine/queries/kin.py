"""A run's family as a person sees it: whose child it is, and how its own children stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torpor.core.ids import run_name
from torpor.core.run import Flag

if TYPE_CHECKING:
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

SHOWN = 12
"""So many of the newest children are named."""
COUNTED = 1000
"""Children are counted up to so many."""


@dataclass(frozen=True, slots=True)
class Child:
    """One child. `independent`: it goes on whatever becomes of its parent."""

    run: str
    state: str
    independent: bool


@dataclass(frozen=True, slots=True)
class Family:
    """A run's kin. `counts` are its children by state, up to `counted_to` of them; `children` are the newest, oldest first.

    `more` are counted and not named.
    """

    parent: str | None
    counts: dict[str, int]
    children: list[Child]
    more: int
    counted_to: int = COUNTED


def family(tx: Tx, run: RunRow, parent: str | None) -> Family | None:
    """Return a run's family, or None if it has none."""
    rows = tx.children(run.id, limit=SHOWN)
    if not rows:
        return None if parent is None else Family(parent, {}, [], 0)
    programs = {row.id: row.name for row in tx.programs()}
    counts = {state.word: count for state, count in tx.count_children(run.id, most=COUNTED).items()}
    children = [
        Child(run_name(programs.get(row.program, "?"), row.id), row.state.word, Flag.INDEPENDENT in row.flags)
        for row in rows
    ]
    return Family(parent, counts, children, sum(counts.values()) - len(children))
