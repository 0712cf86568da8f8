"""Fork, rewind, retry: what people do to a run's history. One transaction each, under the run's lock.

* **fork** makes a new run from a checkpoint: the state and the rows up to their length there, nothing else. Waits,
  approvals, signals and keys stay with the source, which goes on undisturbed: exactly one of the two is its branch (G19).
* **rewind** puts the same run back: a new checkpoint on top, on the next branch, with the next turn's number. Heads and
  turn numbers never go down, so no id and no effect's key ever means something else (G5). Whoever holds the run is fenced:
  its lease goes and the epoch moves, so its gate and its next commit find nothing (G1), and what comes late changes
  nothing (G18). Open waits end. Signals that nobody has read stay: they were sent to the run, not to a branch of it.
  Those that were read after the checkpoint are not sent again: nothing is repeated unasked.
* **retry** starts a failed run again at its checkpoint: what succeeded is used, the failures it ended with are superseded
  (`core.replay`), an unknown effect stays unknown. A join that failed is done again and learns how its children stand by
  then: they are retried first. A child whose parent is no more goes on as an independent one, because nothing may act
  below a run that ended (G12), and nothing wait there for what is refused in silence (G13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.checkpoint import INPUT, MOST_CHECKPOINTS, Mark, mark_of
from torpor.core.ids import parse_run, run_name
from torpor.core.journal import RESOLVES, Kind, Stored
from torpor.core.replay import CallKind, kind_of, shown
from torpor.core.run import Flag, State
from torpor.engine import budgets, follow_ups, streams
from torpor.engine.checkpoints import entries_after, find_point, present
from torpor.engine.decisions import find_run, refuse_pruned
from torpor.engine.family import falling
from torpor.engine.large import read_whole
from torpor.engine.queries.outlook import Outlook, outlook
from torpor.errors import Conflict, UsageError
from torpor.store import values
from torpor.store.history_rows import ForkRow
from torpor.store.rows import NewRun, RunChange, StateRow

if TYPE_CHECKING:
    from torpor.core.commit import Blob
    from torpor.engine.checkpoints import Point
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

_OF_WAITS = Flag.ATTENTION | Flag.PERSON
TITLE_LETTERS = 300


class Fork(NamedTuple):
    """What somebody wants copied. `body` is another input in the place of the run's; then `at` is 0."""

    run: str
    at: int | None
    made_by: str
    title: str = ""
    body: bytes | None = None
    blob: Blob | None = None


class Forked(NamedTuple):
    """The copy, and what stays as it is although it goes on from before."""

    run_id: str
    outlook: Outlook


class Rewound(NamedTuple):
    """A run that went back. `previous` is the checkpoint it stood at, which can be gone back to while it is kept."""

    outlook: Outlook
    turn: int
    branch: int
    previous: int
    previous_kept: bool


class Retried(NamedTuple):
    """A failed run that starts again: at which checkpoint, what is used, what is done again."""

    run_id: str
    checkpoint: int
    reused: list[str]
    again: list[str]


def look(tx: Tx, run: str, at: int | None, *, verb: str) -> Outlook:
    """Return what a fork or a rewind would mean. Raises what it would raise."""
    row, name = find_run(tx, run)
    point = _allowed(tx, row, name, at, verb)
    return outlook(tx, row, name, point, cuts=verb == "rewind")


def _allowed(tx: Tx, run: RunRow, name: str, at: int | None, verb: str) -> Point:
    last = tx.states([run.id])[run.id].seq
    refuse_pruned(tx, run, name)
    if run.state.final and verb == "rewind":
        retry = f"torpor retry {name}   or   " if run.state is State.FAILED else ""
        message = f"{name} is {run.state.word}: a run that has ended is not rewound"
        raise Conflict(message, hint=f"{retry}torpor fork {name} --at {last if at is None else at}")
    if run.state.final and at is None:
        message = f"{name} is {run.state.word}: say from which checkpoint a copy of it goes on"
        raise Conflict(message, hint=f"torpor fork {name} --at {last}   (its last one)")
    if verb == "rewind" and run.epoch == 0:
        raise Conflict(f"{name} has not begun: there is nothing to go back from", hint=f"torpor show {name}")
    if verb == "rewind" and Flag.CANCEL in run.flags:
        raise Conflict(f"cancel of {name} is recorded: it ends soon", hint=f"torpor fork {name} --at {last}")
    return find_point(tx, run, name, at, verb)


def fork(tx: Tx, wanted: Fork) -> Forked:
    """Copy a run at a checkpoint, the present one if none is said. The source is not disturbed, even while it runs.

    Raises NotFound, Conflict (it has ended and no checkpoint was said; the checkpoint was pruned), UsageError.
    """
    found, name = find_run(tx, wanted.run)
    run = tx.get_runs([found.id], lock=True)[found.id]
    point = _allowed(tx, run, name, wanted.at, "fork")
    if wanted.body is not None and point.mark.turn != 1:
        message = f"checkpoint {point.seq} of {name} holds the state of turn {point.mark.turn}, not an input"
        raise UsageError(message, hint=f"torpor fork {name} --at {INPUT} --input JSON")
    what = outlook(tx, run, name, point, cuts=False)
    body = point.body if wanted.body is None else wanted.body
    now, branch = tx.now(), run.branch + 1
    (number,) = tx.insert_runs([NewRun(point.mark.program, run.tenant, body, run.priority)])
    mark = Mark(point.mark.turn, point.mark.program, branch)
    tx.add_entries(number, [Stored(1, now, 0, Kind.CHECKPOINT, mark.text, body)])
    tx.put_states([StateRow(number, 1, now, mark.turn, body)])
    tx.change_runs([RunChange(number, head=1, branch=branch)])
    if wanted.body is None:
        tx.copy_rows(run.id, number, point.mark.branch, values.rows_in(read_whole(tx, body)))
    if wanted.blob is not None:
        tx.put_blobs([(number, wanted.blob)])
    title = wanted.title or f"fork of {name} at checkpoint {point.seq}"
    tx.put_fork(ForkRow(number, run.id, point.seq, now, wanted.made_by, title[:TITLE_LETTERS]))
    tx.name_all(number)
    tx.hint("ready")
    program = next(row.name for row in tx.programs() if row.id == point.mark.program)
    return Forked(run_name(program, number), what)


def rewind(tx: Tx, run: str, at: int, *, by: str) -> Rewound:
    """Put a run back to a checkpoint, on a new branch. Whoever holds it is fenced.

    Raises NotFound, Conflict (it has ended, cancel was asked, the checkpoint was pruned or is not kept).
    """
    found, name = find_run(tx, run)
    row = tx.get_runs([found.id], lock=True)[found.id]
    lease = tx.leases([row.id], lock=True).get(row.id)
    before, point = present(tx, row), _allowed(tx, row, name, at, "rewind")
    what = outlook(tx, row, name, point, cuts=True)
    head, epoch, now = lease.head if lease is not None else row.head, row.epoch + 1, tx.now()
    mark = Mark(before.mark.turn + 1, point.mark.program, row.branch + 1)
    note = {"note": f"rewound to checkpoint {point.seq}", "checkpoint": point.seq, "by": by}
    entries = [
        Stored(head + 1, now, epoch, Kind.NOTE, None, values.encode(note)),
        Stored(head + 2, now, epoch, Kind.CHECKPOINT, mark.text, point.body),
    ]
    _set_rows(tx, row, point)
    if before.seq == INPUT:
        tx.keep_inputs([(row.id, before.mark.text)])
    tx.add_entries(row.id, entries)
    tx.put_states([StateRow(row.id, head + 2, now, mark.turn, point.body)])
    budgets.close(tx, [row.id])  # what the turn that is left had reserved ends as at its end
    tx.end_waits([(row.id, wait.slot) for wait in tx.waits([row.id])])
    if lease is not None:
        tx.drop_leases([row.id])
        streams.retract(tx, [row.id])
    tx.change_runs([_ready(row, now, head + 2, epoch)._replace(program=mark.program, branch=mark.branch)])
    tx.hint(f"run:{row.id}")
    tx.hint("ready")
    entry = tx.entries([(row.id, before.seq)]).get((row.id, before.seq))
    kept = entry is not None and entry.body is not None and entry.kind is Kind.CHECKPOINT
    return Rewound(what, mark.turn, mark.branch, before.seq, kept)


def _ready(run: RunRow, now: int, head: int, epoch: int) -> RunChange:
    """A run that starts again: nobody holds it, nothing of what it waited for is left."""
    flags = run.flags & ~_OF_WAITS
    return RunChange(run.id, State.READY, now, head, flags=flags, stalls=0, epoch=epoch)


def _set_rows(tx: Tx, run: RunRow, point: Point) -> None:
    """Bring the `Rows` fields to what they were at a checkpoint.

    Branches follow each other in time, and each begins with the rows of the one before it up to a length. So row n of
    branch b is the one that was cut by leaving the earliest branch from b on that had it cut, else the one that is there.
    """
    counts = values.rows_in(read_whole(tx, point.body))
    cut = tx.first_cut(run.id, point.mark.branch)
    shared = {field: min(count, cut.get(field, count)) for field, count in counts.items()}
    tx.cut_rows(run.id, run.branch, shared)
    for field, count in counts.items():
        if shared[field] < count:
            tx.bring_back(run.id, point.mark.branch, field, shared[field], count)
    marks = [mark_of(entry.key) for entry in tx.whole_checkpoints(run.id, limit=2 * MOST_CHECKPOINTS) if entry.seq]
    tx.drop_cut(run.id, min((mark.branch for mark in marks if mark is not None), default=run.branch + 1))


def retry(tx: Tx, run: str, *, by: str) -> Retried:
    """Start a failed run again at its checkpoint. Raises NotFound, Conflict if it has not failed."""
    found, name = find_run(tx, run)
    row = tx.get_runs([found.id], lock=True)[found.id]
    state = tx.states([row.id])[row.id]
    if row.state is not State.FAILED:
        ended = row.state.final
        hint = f"torpor fork {name} --at {state.seq}   goes on in a copy" if ended else f"torpor show {name}"
        raise Conflict(f"{name} is {row.state.word}: only a failed run is retried", hint=hint)
    refuse_pruned(tx, row, name)
    entries = list(entries_after(tx, row.id, state.seq))
    again = _superseded(tx, entries)
    now, epoch = tx.now(), row.epoch + 1
    note = values.encode({"note": "retried", "by": by, "superseded": [shown(key) for key in again]})
    marks = [(key, None) for key in again] + [(None, note)]
    added = [Stored(row.head + n, now, epoch, Kind.RETRY, *mark) for n, mark in enumerate(marks, start=1)]
    tx.add_entries(row.id, added)
    ready = _ready(row, now, row.head + len(added), epoch)
    if falling(tx, [row._replace(state=State.READY)]):
        ready = ready._replace(flags=(row.flags & ~_OF_WAITS) | Flag.INDEPENDENT)
    tx.change_runs([ready])
    follow_ups.tell_again(tx, row, _joined(tx, entries, again))
    tx.hint("ready")
    used = [shown(e.key) for e in entries if e.key is not None and e.kind in RESOLVES and e.kind is not Kind.FAILURE]
    return Retried(name, state.seq, used, [shown(key) for key in again])


def _superseded(tx: Tx, entries: list[Stored]) -> list[str]:
    """Return the keys of the failed calls a run's end came from; the last failed call if its end does not say."""
    failures = [entry for entry in entries if entry.kind is Kind.FAILURE and entry.key is not None]
    failed = [str(entry.key) for entry in failures]
    end = entries[-1] if entries else None
    said = values.plain(read_whole(tx, end.body)) if end is not None and end.key is None and end.body else None
    if isinstance(said, dict) and isinstance(said.get("calls"), list):
        named = {str(key) for key in said["calls"]}
        if any(entry.key in named and _interrupted(tx, entry) for entry in failures):  # it hit every call that was open
            named |= {str(entry.key) for entry in failures if _interrupted(tx, entry)}
        return sorted(set(failed) & named)
    return failed[-1:]


def _joined(tx: Tx, entries: list[Stored], again: list[str]) -> list[int]:
    """Return the children whose ends the joins that are done again had consumed."""
    failed = [entry for entry in entries if entry.kind is Kind.FAILURE and entry.key in again and entry.body]
    found = [_said(tx, entry) for entry in failed if kind_of(str(entry.key)) is CallKind.JOIN]
    return [parse_run(str(child))[1] for said in found for child in said.get("joined", ())]


def _interrupted(tx: Tx, entry: Stored) -> bool:
    return bool(_said(tx, entry).get("interrupt"))


def _said(tx: Tx, entry: Stored) -> dict[str, Any]:
    said = values.plain(read_whole(tx, entry.body)) if entry.body else None
    return said if isinstance(said, dict) else {}
