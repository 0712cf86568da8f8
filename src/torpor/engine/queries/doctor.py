"""What the doctor says: a line per subject, worst first, each with the command that helps. Pure: facts in, lines out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from torpor.engine.queries.facts import AHEAD_MICROS, Facts
from torpor.engine.queries.fleet import SILENT_MICROS
from torpor.engine.queries.spoken import duration, plural, size
from torpor.engine.queries.versions import stranded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.engine.queries.facts import InFlight
    from torpor.store.rows import WorkerRow

_NAMED = 3
BEHIND = 1000
"""So many messages that are not delivered are more than a waker leaves lying for a moment."""


class Place(NamedTuple):
    """What is known of the database itself: its kind and address, its bytes (None: not asked), its schema.

    `damage` is the first complaint of the database's own check, empty if there is none, None if it was not made.
    """

    kind: str
    where: str
    version: str
    schema: int
    bytes: int | None = None
    wal_bytes: int | None = None
    damage: str | None = None
    keeper: str = ""
    """Who keeps the turn to write and does not run, empty if nobody does; and what to do about that."""
    keeper_hint: str = ""


class DoctorLine(NamedTuple):
    """One subject. `level` is ok, warn or error; `hint` is the next step, or empty."""

    level: str
    subject: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker process: `answering`, `silent` (not heard of for two leases) or `lost` (proven gone)."""

    worker: str
    pid: int
    state: str
    seen_at: int
    runs: int
    programs: list[str]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the doctor found."""

    at: int
    safe_to_stop: bool
    safe_to_stop_text: str
    lines: list[DoctorLine]
    workers: list[WorkerLine]
    in_flight: list[InFlight]
    counts: dict[str, int]
    place: Place

    @property
    def errors(self) -> int:
        """How many lines are errors."""
        return sum(line.level == "error" for line in self.lines)

    @property
    def warnings(self) -> int:
        """How many lines are warnings."""
        return sum(line.level == "warn" for line in self.lines)


def diagnose(found: Facts, place: Place, gone: frozenset[int]) -> Diagnosis:
    """Say what the facts mean. `gone` are the numbers of workers that are proven gone."""
    workers = [_worker(found, row, gone) for row in found.workers]
    living = {row.id for row, line in zip(found.workers, workers, strict=True) if line.state == "answering"}
    lines = [
        _store(place),
        _clock(found, place),
        *_workers(found, workers),
        _queue(found, living),
        *_versions(found, living),
        *_timers(found, living),
        *_deliveries(found, living),
        *_effects(found),
        _people(found),
        *_failed(found),
        *_schedules(found, living),
    ]
    order = {"error": 0, "warn": 1, "ok": 2}
    acting, text = _safe(found, workers)
    return Diagnosis(
        found.at,
        not acting,
        text,
        sorted(lines, key=lambda line: order[line.level]),
        workers,
        found.in_flight,
        found.counts,
        place,
    )


def _worker(found: Facts, row: WorkerRow, gone: frozenset[int]) -> WorkerLine:
    silent = found.at - row.seen_at > SILENT_MICROS
    state = "lost" if row.id in gone else "silent" if silent else "answering"
    programs = sorted({found.programs.get(number, "?") for number in json.loads(row.programs)})
    return WorkerLine(row.name, row.pid, state, row.seen_at, found.runs_of.get(row.id, 0), programs)


def _safe(found: Facts, workers: Sequence[WorkerLine]) -> tuple[int, str]:
    """Return how many effects would be cut by a stop, and the sentence. What was in flight on a lost worker is cut already."""
    lost = {one.worker for one in workers if one.state == "lost"} - {
        one.worker for one in workers if one.state != "lost"
    }
    acting = [one for one in found.in_flight if one.worker not in lost]
    if not acting:
        cut = [one for one in found.in_flight if one.worker in lost]
        was = (
            f"; {cut[0].effect} ({cut[0].safety}) of {cut[0].run} was, on {cut[0].worker}, which is lost" if cut else ""
        )
        return 0, f"yes, no effect is in flight{was}"
    first = acting[0]
    others = f", and {plural(len(acting) - 1, 'other')}" if len(acting) > 1 else ""
    since = duration(found.at - first.since_at)
    return len(
        acting
    ), f"no, {first.effect} ({first.safety}) of {first.run} is in flight on {first.worker}, {since}{others}"


def _store(place: Place) -> DoctorLine:
    parts = [f"{place.version}, {place.where}"]
    if place.bytes is not None:
        parts.append(size(place.bytes))
    if place.wal_bytes is not None:
        parts.append(f"WAL {size(place.wal_bytes)}")
    parts.append(f"schema {place.schema}")
    if place.damage:
        hint = "keep the file; restore a backup, or `sqlite3 FILE .recover` into a new one"
        return DoctorLine("error", "store", f"{place.where} is damaged: {place.damage}", hint)
    if place.keeper:
        return DoctorLine("error", "store", f"nobody can write to {place.where}: {place.keeper}", place.keeper_hint)
    if place.damage is not None:
        parts.append("checked, whole")
    return DoctorLine("ok", "store", ", ".join(parts))


def _clock(found: Facts, place: Place) -> DoctorLine:
    if found.ahead_micros <= AHEAD_MICROS:
        return DoctorLine("ok", "clock", "stored times and the clock agree")
    ahead = duration(found.ahead_micros)
    if place.kind == "sqlite":
        text = f"stored times are {ahead} ahead of this machine's clock: leases of lost workers do not end"
        return DoctorLine("error", "clock", text, "set the clock right, then torpor doctor --reset-clock")
    return DoctorLine(
        "error", "clock", f"stored times are {ahead} ahead of the server's clock", "set the server's clock right"
    )


def _workers(found: Facts, workers: Sequence[WorkerLine]) -> list[DoctorLine]:
    answering = [line for line in workers if line.state == "answering"]
    names = _some([line.worker for line in answering])
    text = f"{len(answering)} answering ({names})" if answering else "none answering"
    lines = [DoctorLine("ok", "workers", text)]
    for line in workers:
        seen = duration(found.at - line.seen_at)
        if line.state == "lost" and line.runs:
            hint = "torpor worker APP.py takes them over" if not answering else "they are taken over within moments"
            lines.append(DoctorLine("warn", "workers", f"{line.worker} lost with {plural(line.runs, 'run')}", hint))
        elif line.state == "silent":
            text = f"{line.worker} not heard of for {seen}, holds {plural(line.runs, 'run')}"
            lines.append(DoctorLine("warn", "workers", text, "its runs are freed when their leases end"))
    return lines


def _queue(found: Facts, living: set[int]) -> DoctorLine:
    ready = found.counts["ready"]
    if not ready:
        return DoctorLine("ok", "queue", "nothing is ready and waits for a worker")
    oldest = duration(found.at - found.ready_since_at) if found.ready_since_at is not None else "?"
    served = {number for row in found.workers if row.id in living for number in json.loads(row.programs)}
    unserved = [number for number in found.ready_of if number not in served and number not in found.old]
    text = f"{plural(ready, 'run')} ready, oldest {oldest}"
    if not living:
        return DoctorLine("warn", "queue", f"{text}; 0 workers connected", "torpor worker APP.py")
    if unserved:
        named = _some([found.programs.get(number, "?") for number in unserved])
        hint = "torpor worker APP.py: the app that has it"
        return DoctorLine("warn", "queue", f"{text}; no living worker serves {named}", hint)
    return DoctorLine("ok", "queue", text)


def _versions(found: Facts, living: set[int]) -> list[DoctorLine]:
    """Say which runs nobody can take up because the code has moved on (or back)."""
    rows = [row for row in found.workers if row.id in living]
    lines = []
    for number, names in found.old.items():
        said = stranded(names[0], found.versions[number], found.versions, rows)
        if said is not None:
            more = f" (and {plural(len(names) - 1, 'other')} like it)" if len(names) > 1 else ""
            lines.append(DoctorLine("warn", "versions", f"{said.text}{more}", said.hint))
    return lines


def _timers(found: Facts, living: set[int]) -> list[DoctorLine]:
    """Say what nobody moves. A dead worker's row may outlive it; a living one has a waker beside it."""
    hint = "restart the worker: its waker is stuck" if living else "torpor worker APP.py"
    level = "error" if living else "warn"
    lines = []
    if found.overdue:
        text = f"{plural(len(found.overdue), 'run')} past the time to wake: {_some(found.overdue)}"
        lines.append(DoctorLine(level, "timers", text, hint))
    if found.expired:
        text = f"{plural(len(found.expired), 'lease')} ended and not taken over: {_some(found.expired)}"
        lines.append(DoctorLine("warn", "leases", text, hint))
    if found.late:
        text, hint = late_timers(found.late, found.late_micros)
        lines.append(DoctorLine("warn", "timers", text, hint))
    if not lines and found.next_due_at is not None:
        lines.append(DoctorLine("ok", "timers", f"the next run wakes in {duration(found.next_due_at - found.at)}"))
    return lines


def _deliveries(found: Facts, living: set[int]) -> list[DoctorLine]:
    """Say what nobody delivers: with a living worker only what is more than its waker takes in a moment."""
    messages, notes = found.backlog
    if not messages + notes or (living and messages + notes < BEHIND):
        return []
    counted = [plural(messages, "message")] if messages else []
    counted += [plural(notes, "end of a run", "ends of runs")] if notes else []
    text = f"{' and '.join(counted)} not delivered to others"
    hint = "if it does not go down: restart a worker, its waker is stuck" if living else "torpor worker APP.py"
    return [DoctorLine("warn", "deliveries", text, hint)]


def late_timers(late: Sequence[str], micros: int) -> tuple[str, str]:
    """Say which runs a clock that was ahead put to sleep for too long, and what can be done."""
    text = f"{plural(len(late), 'run')} went to sleep by a clock that was ahead, and may wake {duration(micros)} late"
    hint = f"what cannot wait so long: torpor cancel {late[0]}, then start it again"
    return f"{text}: {_some(late)}", hint


def _effects(found: Facts) -> list[DoctorLine]:
    unknown = [item for item in found.people if item.asks == "settle"]
    lines = []
    if unknown:
        first = unknown[0]
        named = f"{first.run} {first.what} since {duration(found.at - first.opened_at)}"
        more = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        lines.append(
            DoctorLine("warn", "effects", f"{len(unknown)} unknown: {named}{more}", f"torpor inbox {first.wait}")
        )
    if found.in_flight:
        lines.append(DoctorLine("ok", "effects", f"{len(found.in_flight)} in flight"))
    return lines


def _people(found: Facts) -> DoctorLine:
    if not found.people:
        return DoctorLine("ok", "people", "nothing needs a person")
    count = f"{len(found.people)}{'+' if found.more_people else ''}"
    oldest = duration(found.at - min(item.opened_at for item in found.people))
    waits = "wait needs" if len(found.people) == 1 else "waits need"
    return DoctorLine("warn", "people", f"{count} {waits} a person, oldest {oldest}", "torpor inbox")


def _failed(found: Facts) -> list[DoctorLine]:
    count = found.counts["failed"]
    if not count:
        return []
    text = f"{plural(count, 'run')} failed, last {_some(found.failed)}"
    return [DoctorLine("warn", "runs", text, f"torpor show {found.failed[0]}")]


def _schedules(found: Facts, living: set[int]) -> list[DoctorLine]:
    late = [one for one in found.schedules if one.trouble == "overdue"]
    failing = [one for one in found.schedules if one.trouble == "failed"]
    lines = []
    if late:
        oldest = duration(found.at - min(one.since_at for one in late))
        named = _some([one.schedule for one in late])
        text = f"{plural(len(late), 'schedule')} past the time to fire, oldest {oldest}: {named}"
        hint = "restart the worker: its waker is stuck" if living else "torpor worker APP.py"
        lines.append(DoctorLine("error" if living else "warn", "schedules", text, hint))
    if failing:
        text = f"{plural(len(failing), 'schedule')} failed to start: {failing[0].schedule}: {failing[0].reason}"
        lines.append(DoctorLine("warn", "schedules", text, f"torpor schedules {failing[0].schedule}"))
    return lines


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
