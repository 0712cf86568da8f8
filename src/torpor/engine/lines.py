"""Lines: of the runs that were started in one line only some hold a place at once; the others sleep until one is passed on.

A run holds its place from the moment it is let through, which is before its first claim, until its end, also while it
sleeps. Whoever waits is `waiting`, flagged QUEUED, and nothing wakes it but its turn and a cancel.

A place cannot leak: it is a row that is written with the run and removed by the follow-up of its end, and a follow-up is
written in the commit that ends it (docs/decisions/0006). A line's row is the lock of everything that is decided about it;
it is taken after the rows of runs, never before. So nobody who holds it looks for runs: whoever takes a run out only says
that the line is stirred, and `admit` comes with the runs already locked, asks again, and lets them through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.run import Flag, State
from torpor.engine.sweeps import Swept
from torpor.errors import UsageError
from torpor.store.rows import PlaceRow, RunChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

SWEEP = 100
"""At most so many runs of a line are let through in one transaction."""
NAME_LETTERS = 200
PLACES = 100_000
_QUEUED, _HELD, _LATER = 0, 1, 2


class Entering(NamedTuple):
    """A run that was just started in a line. `later`: it has its moment to wait for first."""

    run_id: int
    priority: int
    line: str
    limit: int
    later: bool


def check(line: str, limit: int) -> None:
    """Raise UsageError for what is no line."""
    if not 0 < len(line) <= NAME_LETTERS or "\0" in line:
        raise UsageError(f"a line's name has 1 to {NAME_LETTERS} letters without U+0000, not {line!r}")
    if not 0 < limit <= PLACES:
        raise UsageError(f"line_limit={limit} of {line!r}: a line has 1 to {PLACES:,} places")


def enter(tx: Tx, entering: Sequence[Entering]) -> None:
    """Let runs that this transaction started hold a place if there is one and nobody waits, or queue them."""
    if not entering:
        return
    lines = tx.open_lines({one.line: one.limit for one in sorted(entering, key=lambda one: one.line)})
    free = {line.id: 0 if line.queued else line.places - line.held for line in lines.values()}
    places: list[PlaceRow] = []
    for one in sorted(entering, key=lambda one: (one.priority, one.run_id)):
        line = lines[one.line].id
        held = _LATER if one.later else _HELD if free[line] > 0 else _QUEUED
        free[line] -= held == _HELD
        places.append(PlaceRow(one.run_id, line, one.priority, held))
    tx.put_places(places)
    tx.change_runs([RunChange(place.run_id, flags=Flag.LINE) for place in places])
    queued = [place.run_id for place in places if place.held == _QUEUED]
    if queued:
        tx.queue_runs(queued)
        tx.hint("lines")


def arrive(tx: Tx, runs: Sequence[RunRow]) -> None:
    """Queue runs that were started for a later moment, which has come. They are locked."""
    ids = [run.id for run in runs]
    tx.queue_runs(ids)
    tx.arrive(ids)
    tx.hint("lines")


def leave(tx: Tx, ended: Sequence[RunRow]) -> None:
    """Take runs that ended out of their lines: somebody else may have their places. They are locked."""
    if ended:
        tx.leave_lines([run.id for run in ended])
        tx.hint("lines")


def admit(tx: Tx, *, limit: int = SWEEP) -> Swept:
    """Pass on the free places of one line that was stirred, by priority, then by age."""
    stirred = tx.stirred_lines(limit=2)
    if not stirred:
        return Swept()
    waiting = tx.queue(stirred[0], limit=limit)
    runs = tx.get_runs(sorted(waiting), lock=True) if waiting else {}
    line = tx.lock_line(stirred[0])
    fitting = [runs[run_id] for run_id in waiting if run_id in runs and _may_enter(runs[run_id])]
    strangers = [run_id for run_id in waiting if run_id not in {run.id for run in fitting}]
    goes = fitting[: max(0, line.places - line.held)]
    if strangers:  # cancelled meanwhile, or let through by another waker
        held = tx.in_line(strangers, most=1)
        tx.leave_lines([run_id for run_id in strangers if run_id in held and not held[run_id].held])
    if goes:
        tx.hold_places([run.id for run in goes])
        tx.change_runs([RunChange(run.id, State.READY, tx.now(), flags=run.flags & ~Flag.QUEUED) for run in goes])
        tx.hint("ready")
    more = line.held + len(goes) < line.places and bool(tx.queue(line.id, limit=1))
    if not more:
        tx.calm_line(line.id)
    return Swept(len(goes), more=more or len(stirred) > 1)


def _may_enter(run: RunRow) -> bool:
    return run.state is State.WAITING and Flag.QUEUED in run.flags and Flag.CANCEL not in run.flags
