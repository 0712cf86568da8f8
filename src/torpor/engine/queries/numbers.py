"""What a store can be counted by, for metrics: bounded, read in one transaction, never to decide anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torpor.core.run import State
from torpor.engine.queries.fleet import COUNTED, MOST
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from torpor.store.protocol import Tx


@dataclass(frozen=True, slots=True)
class Numbers:
    """Counts end at COUNTED. `ready_of` counts the newest MOST ready runs by program, `people` the first MOST waits."""

    runs: dict[str, int]
    ready_of: dict[str, int]
    oldest_ready_seconds: float
    people: int
    late_seconds: float
    """How long the next timer is due already: what the wakers are behind."""
    outbox: int
    follow_ups: int
    workers: int


def numbers(tx: Tx) -> Numbers:
    """Count."""
    now = tx.now()
    programs = {row.id: row.name for row in tx.programs()}
    ready = tx.list_runs(RunFilter([State.READY], limit=MOST))
    ready_of = dict.fromkeys(programs.values(), 0)
    for run in ready:
        ready_of[programs[run.program]] += 1
    since = min((run.due_at for run in ready if run.due_at is not None), default=now)
    due_at = tx.next_due()
    outbox, follow_ups = tx.backlog(most=COUNTED)
    return Numbers(
        {state.word: count for state, count in tx.count_runs(list(State), most=COUNTED).items()},
        ready_of,
        max(0.0, (now - since) / 1e6),
        len(tx.people_waits(limit=MOST)),
        max(0.0, (now - due_at) / 1e6) if due_at is not None else 0.0,
        outbox,
        follow_ups,
        len(tx.workers()),
    )
