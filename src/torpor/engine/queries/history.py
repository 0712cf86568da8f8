"""What people see of a run's history: where it came from, what was copied from it, what it can go back to, what is gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torpor.core.checkpoint import MOST_CHECKPOINTS, mark_of
from torpor.core.ids import run_name
from torpor.engine.checkpoints import present, pruned_words

if TYPE_CHECKING:
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

FORKS = 20


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """A checkpoint that can be returned to: the number of its entry, when it was made, the turn after it, its branch."""

    checkpoint: int
    made_at: int
    turn: int
    branch: int


@dataclass(frozen=True, slots=True)
class History:
    """A run's history. `checkpoints` are newest first, the present one included; `forks` are copies of this run."""

    branch: int
    checkpoints: list[CheckpointLine] = field(default_factory=list)
    forked_from: str | None = None
    forked_at: int | None = None
    title: str = ""
    forks: list[str] = field(default_factory=list)
    pruned: str = ""


def history(tx: Tx, run: RunRow) -> History:
    """Return the history of a run."""
    now = present(tx, run)
    found = {now.seq: CheckpointLine(now.seq, now.at, now.mark.turn, now.mark.branch)}
    for entry in tx.whole_checkpoints(run.id, limit=2 * MOST_CHECKPOINTS):
        mark = mark_of(entry.key)
        if mark is not None:
            found.setdefault(entry.seq, CheckpointLine(entry.seq, entry.at, mark.turn, mark.branch))
    origin = tx.forks([run.id]).get(run.id)
    copies = tx.forks_of(run.id, limit=FORKS)
    related = tx.get_runs([*copies, *([origin.source] if origin is not None else [])])
    names = {row.id: row.name for row in tx.programs()}
    named = {row.id: run_name(names.get(row.program, ""), row.id) for row in related.values()}
    gone = tx.prunes([run.id]).get(run.id)
    source = None
    if origin is not None:
        source = named.get(origin.source, f"{run_name(names.get(run.program, ''), origin.source)} (pruned)")
    return History(
        run.branch,
        [found[seq] for seq in sorted(found, reverse=True)],
        source,
        None if origin is None else origin.seq,
        "" if origin is None else origin.title,
        [named[one] for one in copies if one in named],
        "" if gone is None else pruned_words(tx, run, gone),
    )
