"""Runs as lines: the state of each with its reason (G13), since when, and what comes next.

Two words are for people only: **asleep** is `waiting` without an open wait for a person, **needs you** is `waiting` with one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.family import members_of
from torpor.core.ids import run_name, wait_name
from torpor.core.lease import LEASE_SECONDS
from torpor.core.replay import shown
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.engine.large import legible, named_blobs
from torpor.engine.queries.spoken import each_once, wait_words
from torpor.engine.queries.versions import stranded
from torpor.errors import UsageError
from torpor.store import values
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.journal import Stored
    from torpor.core.lease import Lease
    from torpor.store.protocol import Tx
    from torpor.store.rows import InLine, ProgramRow, RunRow, StateRow, WaitRow, WorkerRow

MOST = 200
"""No list is longer."""
COUNTED = 10_000
"""Counts end here; beyond it is "more than"."""
NEXT_TO_WAKE = 5
_EVER = 2**62
LEASE_MICROS = round(LEASE_SECONDS * 1_000_000)
SILENT_MICROS = 2 * LEASE_MICROS
"""A worker that was not heard of for so long is not counted on."""
WORDS = {
    State.READY: "ready",
    State.RUNNING: "running",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class WaitLine:
    """An open wait of a run: its id, what kind it is, what it is for, and until when."""

    wait: str
    kind: str
    title: str
    opened_at: int | None
    due_at: int | None


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run. `state` is what programs see, `shown` what people read: one of ready, running, asleep, needs you, ..."""

    run: str
    program: str
    version: int
    state: str
    shown: str
    reason: str
    since_at: int
    next_at: int | None
    next_is: str
    """What `next_at` is: `wakes`, `expires`, `lease`, or empty."""
    created_at: int
    turn: int
    stretches: int
    takeovers: int
    worker: str | None
    cancelling: bool
    waits: list[WaitLine] = field(default_factory=list)
    hint: str = ""
    """What to do about a run that failed or that nobody can take up, if it is known."""
    deadline_at: int | None = None
    """When it is cancelled unless it ended before."""
    parent: str | None = None
    """The run that it is a child of."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A list of runs, and how many there are of each state; `asleep_more` sleep and are not in the list."""

    at: int
    runs: list[RunLine]
    counts: dict[str, int]
    asleep_more: int
    counted_to: int = COUNTED


def fleet(tx: Tx, *, gone: frozenset[int] = frozenset(), limit: int = 50, ended: int = 3) -> Fleet:
    """Return what is not asleep, the next to wake, and the runs that ended last; people's first.

    `gone` are the numbers of workers that are proven dead.
    """
    limit = min(limit, MOST)
    people = sorted({wait.run_id for wait in tx.people_waits(limit=limit)})
    found = dict(tx.get_runs(people))
    active = tx.list_runs(RunFilter([State.READY, State.RUNNING], limit=limit))
    waking = tx.get_runs(tx.due_runs(before=_EVER, limit=NEXT_TO_WAKE + len(people))).values()
    asleep = [run for run in waking if run.id not in found][:NEXT_TO_WAKE]
    newest = [run for run in tx.list_runs(RunFilter([State.WAITING], limit=NEXT_TO_WAKE)) if run.id not in found]
    past = tx.list_runs(RunFilter([State.COMPLETED, State.FAILED, State.CANCELLED], limit=ended)) if ended else []
    for run in (*active, *asleep, *newest, *past):
        found.setdefault(run.id, run)
    lines = sorted(run_lines(tx, list(found.values()), gone=gone), key=_rank)
    counts = {state.word: count for state, count in tx.count_runs(list(State), most=COUNTED).items()}
    listed = sum(line.state == "waiting" for line in lines)
    return Fleet(tx.now(), lines, counts, max(0, counts["waiting"] - listed))


_ORDER = ("needs you", "running", "ready", "asleep", "failed", "cancelled", "completed")


def _rank(line: RunLine) -> tuple[int, int, int]:
    soonest = line.next_at if line.next_at is not None and line.shown == "asleep" else _EVER
    return _ORDER.index(line.shown), soonest, -line.since_at


def listed(
    tx: Tx,
    *,
    gone: frozenset[int] = frozenset(),
    states: Sequence[State] | None = None,
    program: str | None = None,
    limit: int = 50,
    before: int | None = None,
) -> list[RunLine]:
    """Return the newest runs that pass a filter. Raises UsageError for an unknown program."""
    programs = None
    if program is not None:
        known = tx.programs()
        programs = [row.id for row in known if row.name == program]
        if not programs:
            has = ", ".join(sorted({row.name for row in known})) or "none yet"
            raise UsageError(f'no program named "{program}" (the store has: {has})', hint="torpor ps --all")
    rows = tx.list_runs(RunFilter(list(states) if states is not None else None, programs, before, min(limit, MOST)))
    return run_lines(tx, rows, gone=gone)


def run_lines(tx: Tx, runs: Sequence[RunRow], *, gone: frozenset[int] = frozenset()) -> list[RunLine]:
    """Return a line for each run, in order. Everything is read in a few batches."""
    ids = sorted(run.id for run in runs)
    leases = tx.leases([run.id for run in runs if run.state is State.RUNNING]) if ids else {}
    waits: dict[int, list[WaitRow]] = {}
    for wait in tx.waits([run.id for run in runs if not run.state.final]) if ids else []:
        waits.setdefault(wait.run_id, []).append(wait)
    heads = {run.id: leases[run.id].head if run.id in leases else run.head for run in runs}
    places = [(run_id, head) for run_id, head in heads.items() if head]
    places += [(w.run_id, w.seq) for rows in waits.values() for w in rows if w.kind.lasting]
    parents = tx.get_runs(sorted({run.parent for run in runs if run.parent is not None}))
    open_runs = any(not run.state.final for run in runs)
    reading = _Reading(
        {row.id: row for row in tx.programs()},
        {row.id: row for row in tx.workers()} if open_runs else {},
        gone,
        leases,
        waits,
        tx.entries(sorted(set(places))) if places else {},
        tx.states(ids) if ids else {},
        heads,
        tx.now(),
        _extras(tx, runs),
        parents,
    )
    ends = {(run.id, run.head) for run in runs if run.state is State.FAILED}
    named = named_blobs(entry.body for place, entry in reading.entries.items() if place in ends)
    reading.packed = tx.get_blobs(named) if named else {}
    return [reading.line(run) for run in runs]


class _Extras(NamedTuple):
    """What only some runs have: a place in a line, a deadline, a reason why they are cancelled."""

    lines: dict[int, InLine]
    deadlines: dict[int, int]
    cancels: dict[int, str]


def _extras(tx: Tx, runs: Sequence[RunRow]) -> _Extras:
    queued = [run.id for run in runs if Flag.QUEUED in run.flags and run.state is State.WAITING]
    cancelled = [run.id for run in runs if Flag.CANCEL in run.flags]
    going = [run.id for run in runs if not run.state.final]
    return _Extras(
        tx.in_line(queued, most=COUNTED) if queued else {},
        tx.deadlines(going) if going else {},
        tx.cancels(cancelled) if cancelled else {},
    )


@dataclass(slots=True)
class _Reading:
    """What was read for a batch of runs."""

    programs: dict[int, ProgramRow]
    workers: dict[int, WorkerRow]
    gone: frozenset[int]
    leases: dict[int, Lease]
    waits: dict[int, list[WaitRow]]
    entries: dict[tuple[int, int], Stored]
    states: dict[int, StateRow]
    heads: dict[int, int]
    now: int
    extras: _Extras
    parents: dict[int, RunRow]
    packed: dict[bytes, bytes] = field(default_factory=dict)

    def line(self, run: RunRow) -> RunLine:
        program = self.programs.get(run.program)
        name = program.name if program is not None else "?"
        lease = self.leases.get(run.id)
        open_waits = [w for w in self.waits.get(run.id, []) if w.answered_at is None]
        people = [w for w in open_waits if w.kind.for_person]
        cancelling = not run.state.final and Flag.CANCEL in (
            run.flags | (lease.flags if lease is not None else Flag.NONE)
        )
        turn = self.states[run.id].turn if run.id in self.states else 1
        worker = self._holder(lease) if lease is not None else None
        display = WORDS.get(run.state) or ("needs you" if people else "asleep")
        next_at, next_is = self._next(run, lease, people)
        reason, hint = self._reason(run, open_waits, people)
        return RunLine(
            run_name(name, run.id),
            name,
            program.version if program is not None else 0,
            run.state.word,
            display,
            self._held(lease, f"turn {turn} on {worker}") if lease is not None else reason,
            self._since(run),
            next_at,
            next_is,
            run.created_at,
            turn,
            run.epoch,
            run.takeovers,
            worker,
            cancelling,
            [self.wait_line(w) for w in open_waits],
            hint,
            self.extras.deadlines.get(run.id),
            self._parent(run),
        )

    def _parent(self, run: RunRow) -> str | None:
        parent = self.parents.get(run.parent) if run.parent is not None else None
        program = self.programs.get(parent.program) if parent is not None else None
        return run_name(program.name, parent.id) if parent is not None and program is not None else None

    def wait_line(self, wait: WaitRow) -> WaitLine:
        entry = self.entries.get((wait.run_id, wait.seq))
        title = asked(wait, entry)
        opened_at = entry.at if entry is not None else None
        return WaitLine(wait_name(wait.run_id, wait.seq), wait.kind.word, title, opened_at, wait.due_at)

    def _holder(self, lease: Lease) -> str:
        row = self.workers.get(lease.worker)
        return row.name if row is not None else f"worker {lease.worker}"

    def _held(self, lease: Lease, where: str) -> str:
        return f"{where}, which is lost" if lease.worker in self.gone else where

    def _living(self) -> list[WorkerRow]:
        """Return the workers that are not proven dead and were heard of not long ago."""
        return [r for r in self.workers.values() if r.id not in self.gone and self.now - r.seen_at < SILENT_MICROS]

    def _unserved(self, run: RunRow) -> tuple[str, str]:
        """Return why nobody takes an open run up and what helps, if that is so."""
        living = self._living()
        program = self.programs.get(run.program)
        if program is not None and (found := stranded(run_name(program.name, run.id), program, self.programs, living)):
            return found
        if run.state is not State.READY:
            return "", ""  # nobody needs to be there before it wakes
        if not living:
            tag = program.tag if program is not None else ""
            return "no worker is connected", f"torpor worker APP.py --tag {tag}" if tag else ""
        served = {number for row in living for number in json.loads(row.programs)}
        return "" if run.program in served else "no worker that lives serves this program", ""

    def _reason(self, run: RunRow, open_waits: Sequence[WaitRow], people: Sequence[WaitRow]) -> tuple[str, str]:
        """Return why a run is where it is, and what to do about it if that is known."""
        if run.state is State.READY:
            return self._unserved(run)
        if run.state is State.FAILED:
            entry = self.entries.get((run.id, run.head))
            body = legible(entry.body, self.packed) if entry is not None and entry.body else b""
            return (failure(body), advice(body)) if body else ("", "")
        if run.state is not State.WAITING:
            return self.extras.cancels.get(run.id, ""), ""
        unserved, hint = self._unserved(run)
        starts_later = run.epoch == 0 and not open_waits
        queued = self.extras.lines.get(run.id)
        if queued is not None:
            why = f"behind {queued.ahead:,} other{'s' if queued.ahead != 1 else ''} for {queued.line}"
            return ", but ".join(part for part in (why, unserved) if part), hint
        titles = (self.wait_line(wait).title for wait in people or open_waits)
        why = "starts later" if starts_later else each_once(titles)
        return ", but ".join(part for part in (why, unserved) if part), hint

    def _since(self, run: RunRow) -> int:
        """Return since when it is as it is: its last entry, or for a ready run when it became ready."""
        if run.state is State.READY and run.due_at is not None:
            return min(run.due_at, self.now)
        entry = self.entries.get((run.id, self.heads[run.id]))
        return entry.at if entry is not None else run.created_at

    def _next(self, run: RunRow, lease: Lease | None, people: Sequence[WaitRow]) -> tuple[int | None, str]:
        if lease is not None:
            return lease.expires_at, "lease"
        if run.state is not State.WAITING:
            return None, ""
        expiring = [wait.due_at for wait in people if wait.due_at is not None]
        if people and expiring:
            return min(expiring), "expires"
        return run.due_at, "wakes" if run.due_at is not None else ""


def asked(wait: WaitRow, entry: Stored | None) -> str:
    """Return what a wait is for, with the verb that ends it: `approve Send it?`, `settle publish#1`."""
    if wait.kind is WaitKind.APPROVAL:
        return f"approve {first_line(wait.title)}"
    if wait.kind is WaitKind.BUDGET:
        return f"budget {first_line(wait.title)}"
    if wait.kind is WaitKind.QUESTION:
        return f"answer {first_line(wait.title)}"
    if wait.kind in {WaitKind.CALLBACK, WaitKind.EVENT}:
        return f"{wait.kind.word} {first_line(wait.title)}"
    if wait.kind is WaitKind.ATTENTION and entry is not None and entry.key is not None:
        return f"settle {shown(entry.key)}"
    if wait.kind is WaitKind.CHILDREN:
        total = len(members_of(wait.members))
        return f"{total - wait.need} of {total} children"
    return wait_words(first_line(wait.title))


def first_line(text: str) -> str:
    """Return what a list can show of a text."""
    return text.splitlines()[0] if text else ""


def failure(body: bytes) -> str:
    """Return one line about a recorded error: `ValueError: no such order (shop.py:12)`."""
    recorded: Any = values.plain(body)
    if not isinstance(recorded, dict):
        return str(recorded)
    where = f" ({recorded['where']})" if recorded.get("where") else ""
    return f"{recorded.get('kind', 'error')}: {first_line(str(recorded.get('detail', '')))}{where}"


def advice(body: bytes) -> str:
    """Return what a recorded error says is to be done about it, empty if it says nothing."""
    recorded: Any = values.plain(body)
    return first_line(str(recorded.get("hint") or "")) if isinstance(recorded, dict) else ""
