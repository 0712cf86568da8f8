"""The doctor's facts, as the store knows them: who works, what is in flight, what waits for whom, what nobody moves (G13)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.ids import run_name
from torpor.core.replay import shown
from torpor.core.run import State
from torpor.core.wait import WaitKind
from torpor.engine.large import legible, named_blobs
from torpor.engine.queries.fleet import COUNTED, LEASE_MICROS, MOST, SILENT_MICROS
from torpor.engine.queries.people import InboxItem, inbox
from torpor.engine.queries.schedules import ScheduleTrouble, troubled
from torpor.store import values
from torpor.store.rows import RunChange, RunFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torpor.core.lease import Lease
    from torpor.store.protocol import Tx
    from torpor.store.rows import ProgramRow, RunRow, WorkerRow

AHEAD_MICROS = 300_000_000
"""A stored time so far ahead of the store's clock says that this clock is wrong, or was (docs/operations.md)."""
OVERDUE_MICROS = 10_000_000
"""A timer so long past its moment has nobody to fire it."""
_FAILED = 3


@dataclass(frozen=True, slots=True)
class InFlight:
    """An effect whose intent is durable and whose outcome is not, in a run that a worker holds."""

    run: str
    effect: str
    safety: str
    worker: str
    since_at: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What the store knows, read in one transaction. Numbers in `runs_of` and `ready_of` are of workers and programs."""

    at: int
    workers: list[WorkerRow]
    runs_of: dict[int, int]
    in_flight: list[InFlight]
    counts: dict[str, int]
    ready_of: dict[int, int]
    ready_since_at: int | None
    programs: dict[int, str]
    people: list[InboxItem]
    more_people: bool
    overdue: list[str]
    """Sleeping runs whose timer is long past."""
    expired: list[str]
    """Runs whose lease ended and that nobody has taken over."""
    failed: list[str]
    """The runs that failed last."""
    next_due_at: int | None
    ahead_micros: int
    """How far the newest stored times are ahead of the store's clock."""
    versions: dict[int, ProgramRow] = field(default_factory=dict)
    """Every program in each of its versions, by number."""
    old: dict[int, list[str]] = field(default_factory=dict)
    """Open runs, by program, of versions that no worker heard of lately serves."""
    late: list[str] = field(default_factory=list)
    """Sleeping runs that set their timer while the clock was far ahead: they wake that much late."""
    late_micros: int = 0
    """By how much at most."""
    schedules: list[ScheduleTrouble] = field(default_factory=list)
    """Schedules that nobody fires, or that fail to start."""
    backlog: tuple[int, int] = (0, 0)
    """Messages and follow-ups that no waker has seen to, each counted to COUNTED."""


def facts(tx: Tx) -> Facts:
    """Read the facts; bounded."""
    now = tx.now()
    versions = {row.id: row for row in tx.programs()}
    programs = {row.id: row.name for row in versions.values()}
    workers = tx.workers()
    leases = tx.all_leases(limit=MOST)
    running = _named(tx.get_runs(sorted(lease.run_id for lease in leases)).values() if leases else (), programs)
    ready = tx.list_runs(RunFilter([State.READY], limit=MOST))
    since = [run.due_at for run in ready if run.due_at is not None]
    overdue = tx.due_runs(before=now - OVERDUE_MICROS, limit=MOST)
    asked = inbox(tx, limit=MOST)
    late, late_micros = _late(tx, programs)
    return Facts(
        now,
        workers,
        _counted(lease.worker for lease in leases),
        _in_flight(tx, leases, {row.id: row.name for row in workers}, running),
        {state.word: count for state, count in tx.count_runs(list(State), most=COUNTED).items()},
        _counted(run.program for run in ready),
        min(since) if since else None,
        programs,
        asked.items,
        asked.more,
        list(_named(tx.get_runs(sorted(overdue)).values(), programs).values()) if overdue else [],
        [running[lease.run_id] for lease in leases if lease.expires_at <= now and lease.run_id in running],
        list(_named(tx.list_runs(RunFilter([State.FAILED], limit=_FAILED)), programs).values()),
        tx.next_due(),
        max(0, *(at - now for at in _stored_times(leases, workers, since))) if leases or workers or since else 0,
        versions,
        _old(tx, workers, programs),
        late,
        late_micros,
        troubled(tx),
        tx.backlog(most=COUNTED),
    )


def _old(tx: Tx, workers: Sequence[WorkerRow], programs: Mapping[int, str]) -> dict[int, list[str]]:
    """Return open runs of programs that nobody serves in their version, though somebody does in another."""
    heard = [row for row in workers if tx.now() - row.seen_at < SILENT_MICROS]
    served = {number for row in heard for number in json.loads(row.programs)}
    names = {programs[number] for number in served if number in programs}
    unserved = [number for number, name in programs.items() if name in names and number not in served]
    found: dict[int, list[str]] = {}
    if unserved:
        for run in tx.list_runs(RunFilter([State.READY, State.WAITING], unserved, limit=MOST)):
            found.setdefault(run.program, []).append(run_name(programs[run.program], run.id))
    return found


def _counted(numbers: Iterable[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for number in numbers:
        counts[number] = counts.get(number, 0) + 1
    return counts


def _named(runs: Iterable[RunRow], programs: Mapping[int, str]) -> dict[int, str]:
    return {run.id: run_name(programs.get(run.program, "?"), run.id) for run in runs}


def _in_flight(
    tx: Tx, leases: Sequence[Lease], workers: Mapping[int, str], running: Mapping[int, str]
) -> list[InFlight]:
    ids = sorted(lease.run_id for lease in leases)
    intents = tx.open_intents(ids) if ids else {}
    if not intents:
        return []
    unknown = _unknown(tx, sorted(intents))
    named = named_blobs(entry.body for entries in intents.values() for entry in entries)
    packed = tx.get_blobs(named) if named else {}
    holder = {lease.run_id: workers.get(lease.worker, f"worker {lease.worker}") for lease in leases}
    found = {}
    for run_id, entries in intents.items():
        for entry in entries:
            key = entry.key or ""
            if unknown.get((run_id, key), 0) > entry.seq:
                continue  # nothing acts any more: a person settles it
            body = values.plain(legible(entry.body or b"{}", packed))
            safety = str(body.get("safety", "")) if isinstance(body, dict) else ""
            found[run_id, key] = InFlight(running.get(run_id, "?"), shown(key), safety, holder[run_id], entry.at)
    return list(found.values())


def _unknown(tx: Tx, ids: Sequence[int]) -> dict[tuple[int, str], int]:
    """Return the entry that asked a person about each effect whose outcome is not known."""
    waits = [w for w in tx.waits(ids) if w.kind is WaitKind.ATTENTION and w.answered_at is None]
    entries = tx.entries([(w.run_id, w.seq) for w in waits]) if waits else {}
    return {(place[0], entry.key): entry.seq for place, entry in entries.items() if entry.key is not None}


def _stored_times(leases: Sequence[Lease], workers: Sequence[WorkerRow], since: Sequence[int]) -> list[int]:
    """Return when these rows were last written, by the clock of that moment."""
    return [*(lease.expires_at - LEASE_MICROS for lease in leases), *(row.seen_at for row in workers), *since]


def _late(tx: Tx, programs: Mapping[int, str]) -> tuple[list[str], int]:
    """Return runs that went to sleep while the clock was far ahead, among the newest that sleep, and by how much at most.

    Their last entry says when that was. Their timers were set from that moment, so they fire as much too late.
    """
    now = tx.now()
    asleep = {run.id: run for run in tx.list_runs(RunFilter([State.WAITING], limit=MOST)) if run.due_at is not None}
    last = tx.entries([(run.id, run.head) for run in asleep.values()]) if asleep else {}
    ahead = {run_id: entry.at - now for (run_id, _), entry in last.items() if entry.at - now > AHEAD_MICROS}
    named = _named((asleep[run_id] for run_id in sorted(ahead)), programs)
    return list(named.values()), max(ahead.values(), default=0)


class ClockReset(NamedTuple):
    """What was brought back, and what cannot be: sleeping runs whose timers the wrong clock set (at most 200 are named)."""

    changed: int
    late: list[str]
    late_seconds: float


def reset_clock(tx: Tx) -> ClockReset:
    """Bring stored times that are far ahead of the store's clock back to it.

    After a clock that ran ahead was set right: leases would not end for as long as it was ahead, and runs would look
    freshly ready. What a run was told about time stays in its journal, because replay must tell it the same; so timers
    keep the moment they were set for (G8), and the runs that sleep until one are named.
    """
    now = tx.now()
    limit = now + AHEAD_MICROS
    ready = [
        run
        for run in tx.list_runs(RunFilter([State.READY], limit=MOST))
        if run.due_at is not None and run.due_at > limit
    ]
    leases = [lease for lease in tx.all_leases(limit=MOST) if lease.expires_at - LEASE_MICROS > limit]
    workers = [row.id for row in tx.workers() if row.seen_at > limit]
    if ready:
        tx.get_runs(sorted(run.id for run in ready), lock=True)
        tx.change_runs([RunChange(run.id, due_at=now) for run in ready])
    for lease in leases:
        tx.renew(lease.worker, [(lease.run_id, lease.token, lease.epoch)], lease_micros=LEASE_MICROS)
    for worker in workers:
        tx.see_worker(worker)
    late, late_micros = _late(tx, {row.id: row.name for row in tx.programs()})
    return ClockReset(len(ready) + len(leases) + len(workers), late, late_micros / 1_000_000)
