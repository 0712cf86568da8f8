"""What is removed when: runs that ended, journals below the present checkpoint, older checkpoints, streams, slots.

Each program says how long its layers are kept (`sdk.keeping.Retention`); that is written beside it when a worker starts,
so the waker of any process sees to it. Everything goes in bounded parts, each a transaction: an index finds what is old,
its state is asked again under the run's lock, and a kill between two parts leaves a run that is found again. A run that
has ended goes with its rows in every table (`store.tables`), its key included: the same key then starts a new run.

Of a stream the oldest parts go, whether the run goes on or not, and it is written down up to where: a reader who comes
from further back is told so before anything else, so that it never takes a beginning that is missing for none (G11).
What is loose stays, because a retraction or a commit may still name it; the counter stays, so no number is used twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.stream import loose_of
from torpor.engine.sweeps import Swept
from torpor.store.history_rows import PruneRow, RetentionRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow, ScheduleRow

RUNS = 100
"""At most so many runs are looked at in one part."""
ROWS = 5_000
"""At most so many rows of a table go in one part."""
BEGINNING = (0, 0)
WALKED = "retention_walked"
"""The fact of the store that says up to which run those that go on were looked at."""
STREAMS_WALKED = "retention_streams_walked"
"""The same of streams."""
SLOTS_WALKED = "retention_slots_walked"
"""The same of schedules, which go by name."""


class Part(NamedTuple):
    """What one part removed, or would: runs and entries; `bytes` of bodies are counted when nothing is removed.

    `runs` are those that had something removed. `after` says where the next part begins, None that this was the last.
    """

    runs: int = 0
    entries: int = 0
    bytes: int = 0
    after: tuple[int, int] | None = None
    checkpoints: int = 0


def kept_by(rule: RetentionRow) -> str:
    """Return who removes what a program's retention says, in the words people see."""
    return f"the retention of `{rule.program}`"


def declare(tx: Tx, rows: Sequence[RetentionRow]) -> None:
    """Write how long programs' layers are kept: what their code says now."""
    known = {row.program: row for row in tx.retention()}
    changed = [row for row in rows if known.get(row.program, RetentionRow(row.program)) != row]
    if changed:
        tx.put_retention(changed)


def prune_ended(
    tx: Tx, program: int, before: int, why: str, *, after: tuple[int, int] = BEGINNING, dry: bool = False
) -> Part:
    """Remove a part of a program's runs that ended before a moment; with `dry` only count them."""
    found = tx.ended_runs(program, before=before, after=after, limit=RUNS)
    if not found:
        return Part()
    ids = sorted(run for _, run in found)
    if dry:
        sure = [run for run in ids if run not in tx.held_back(ids)]
        return Part(len(sure), *tx.measure(sure), found[-1])
    locked = tx.get_runs(ids, lock=True, skip_locked=True)
    held = tx.held_back(ids)
    sure = [run.id for run in locked.values() if run.state.final and (run.due_at or 0) < before and run.id not in held]
    if not sure:
        return Part(after=found[-1])
    entries, more = tx.drop_of_runs(sure, limit=ROWS)
    if not more:
        return Part(len(sure), entries, 0, found[-1])
    for run_id in sure:
        tx.put_prune(PruneRow(run_id, locked[run_id].head, tx.now(), why))  # nobody retries or copies the rest of it
    return Part(0, entries, 0, after)


def prune_open(
    tx: Tx, rules: Sequence[RetentionRow], *, now: int, after: int = 0, why: str = "", dry: bool = False
) -> tuple[Part, bool]:
    """Cut the journals of a part of the runs that go on, and empty their old checkpoints.

    `why` is said in the place of the retention. Returns what it did, and whether the last run it looked at has more to be
    cut.
    """
    names = {row.id: row.name for row in tx.programs()}
    by_name = {rule.program: rule for rule in rules if rule.journal is not None or rule.checkpoints is not None}
    programs = [number for number, name in names.items() if name in by_name]
    ids = tx.open_runs(programs, after=after, limit=RUNS) if programs else []
    if not ids:
        return Part(), False
    states = tx.states(ids)
    ids = [run_id for run_id in ids if states[run_id].seq > 0]
    locked = tx.get_runs(ids) if dry else tx.get_runs(ids, lock=True, skip_locked=True)
    last = max(states)
    entries = count = cut = emptied = 0
    for run in locked.values():
        done = _prune_one(tx, run, by_name[names[run.program]], now, why, dry=dry)
        cut, entries, count, emptied = cut + bool(done[0]), entries + done[0], count + done[1], emptied + done[2]
        if not dry and done[0] >= ROWS:
            return Part(cut, entries, count, (0, run.id - 1), emptied), True
    return Part(cut, entries, count, (0, last), emptied), False


def _prune_one(tx: Tx, run: RunRow, rule: RetentionRow, now: int, why: str, *, dry: bool) -> tuple[int, int, int]:
    if run.state.final:
        return 0, 0, 0
    below = tx.states([run.id])[run.id].seq
    emptied = 0
    if rule.checkpoints is not None:
        before = now - rule.checkpoints
        old = [e for e in tx.whole_checkpoints(run.id, limit=ROWS) if e.at < before and e.seq < below]
        emptied = len(old)
        if emptied and not dry:
            tx.empty_old(run.id, before=before, below=below)
    upto = entries = count = 0
    if rule.journal is not None:
        upto, entries, count = tx.old_entries(run.id, before=now - rule.journal, below=below, limit=ROWS)
    if entries and not dry:
        tx.cut_journal(run.id, upto)
        if upto:
            tx.put_prune(PruneRow(run.id, upto, now, why or kept_by(rule)))
    if (entries or emptied) and not dry and entries < ROWS:
        tx.forget_blobs(run.id)
    return entries, count, emptied


def prune_streams(
    tx: Tx, rules: Sequence[RetentionRow], *, now: int, after: int = 0, why: str = "", dry: bool = False
) -> Part:
    """Cut the beginnings of a part of the streams, of runs that go on or ended; `entries` counts parts (G11)."""
    by_name = {rule.program: rule for rule in rules if rule.stream is not None}
    found = dict(tx.oldest_parts(after=after, limit=RUNS)) if by_name else {}
    if not found:
        return Part()
    last = max(found)
    names = {row.id: row.name for row in tx.programs()}
    old = {}
    for row in tx.get_runs(list(found)).values():
        rule, oldest = by_name.get(names[row.program]), found[row.id]
        if rule is not None and oldest is not None and oldest < now - (rule.stream or 0):
            old[row.id] = rule
    runs = sorted(old)
    # whoever cuts the same stream waits for the run's row; whoever writes to it only adds beyond its counter
    sure = sorted(runs if dry else tx.get_runs(runs, lock=True, skip_locked=True))
    spoken = tx.streams(sure)
    cut = parts = size = 0
    for run in sure:
        below = min(
            (first for loose in loose_of(spoken[run]).values() for first, _ in loose), default=spoken[run].n + 1
        )
        upto, count, length = tx.old_parts(run, before=now - (old[run].stream or 0), below=below, limit=ROWS)
        if count and not dry:
            tx.cut_stream(PruneRow(run, upto, now, why or kept_by(old[run])))
            tx.forget_blobs(run)
        cut, parts, size = cut + bool(count), parts + count, size + length
        if not dry and parts >= ROWS:
            return Part(cut, parts, size, (0, run - 1 if count >= ROWS else run))
    return Part(cut, parts, size, (0, last) if len(found) >= RUNS else None)


def prune_slots(
    tx: Tx, rules: Sequence[RetentionRow], *, now: int, after: str = "", dry: bool = False
) -> tuple[int, str | None]:
    """Remove old slots of a part of the schedules; a schedule's newest stays. Returns how many, and where to go on."""
    kept = {rule.program: rule.slots for rule in rules if rule.slots is not None}
    found = tx.list_schedules(after=after, limit=RUNS) if kept else []
    if not found:
        return 0, None
    names = [row.name for row in found if row.program in kept]
    rows: dict[str, ScheduleRow] = {row.name: row for row in found if row.program in kept}
    if not dry:
        rows = tx.get_schedules(names, lock=True, skip_locked=True) if names else {}
    gone, place = 0, after
    for name, row in sorted(rows.items()):
        if row.program not in kept:
            continue  # it was registered for another program meanwhile
        old = tx.old_slots(row.id, before=now - kept[row.program], limit=ROWS)
        if old and not dry:
            tx.drop_slots(row.id, old)
        gone += len(old)
        place = name if len(old) < ROWS else place
        if not dry and gone >= ROWS:
            return gone, place
    return gone, found[-1].name if len(found) >= RUNS else None


def sweep(tx: Tx) -> Swept:
    """Do one part of what every program's retention asks for.

    Runs that ended go as fast as parts follow each other; those that go on are walked, a part each time it is called.
    """
    rules = tx.retention()
    if not rules:
        return Swept(0)
    now = tx.now()
    by_name = {rule.program: rule for rule in rules}
    for program in tx.programs():
        rule = by_name.get(program.name)
        if rule is not None and rule.runs is not None:
            part = prune_ended(tx, program.id, now - rule.runs, kept_by(rule))
            if part.runs or part.after == BEGINNING:
                return Swept(0, more=True)
    walked = int(tx.get_meta(WALKED) or 0)
    part, more = prune_open(tx, rules, now=now, after=walked)
    tx.put_meta(WALKED, str(0 if part.after is None else part.after[1]))
    more = _sweep_streams(tx, rules, now) or more
    return Swept(0, more=_sweep_slots(tx, rules, now) or more)


def _sweep_streams(tx: Tx, rules: Sequence[RetentionRow], now: int) -> bool:
    if all(rule.stream is None for rule in rules):
        return False
    part = prune_streams(tx, rules, now=now, after=int(tx.get_meta(STREAMS_WALKED) or 0))
    tx.put_meta(STREAMS_WALKED, str(0 if part.after is None else part.after[1]))
    return part.entries >= ROWS


def _sweep_slots(tx: Tx, rules: Sequence[RetentionRow], now: int) -> bool:
    if all(rule.slots is None for rule in rules):
        return False
    before = tx.get_meta(SLOTS_WALKED) or ""
    gone, after = prune_slots(tx, rules, now=now, after=before)
    tx.put_meta(SLOTS_WALKED, after or "")
    return gone >= ROWS
