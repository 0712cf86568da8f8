"""What is removed when: runs that ended, journals below the present checkpoint, older checkpoints.

Each program says how long its layers are kept (`sdk.keeping.Retention`); that is written beside it when a worker starts,
so the waker of any process sees to it. Everything goes in bounded parts, each a transaction: an index finds what is old,
its state is asked again under the run's lock, and a kill between two parts leaves a run that is found again. A run that
has ended goes with its rows in every table (`store.tables`), its key included: the same key then starts a new run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.engine.sweeps import Swept
from torpor.store.history_rows import PruneRow, RetentionRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

RUNS = 100
"""At most so many runs are looked at in one part."""
ROWS = 5_000
"""At most so many rows of a table go in one part."""
BEGINNING = (0, 0)
WALKED = "retention_walked"
"""The fact of the store that says up to which run those that go on were looked at."""


class Part(NamedTuple):
    """What one part removed, or would: runs and entries; `bytes` of bodies are counted when nothing is removed.

    `after` says where the next part begins, None that this was the last.
    """

    runs: int = 0
    entries: int = 0
    bytes: int = 0
    after: tuple[int, int] | None = None


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
    tx: Tx, rules: Sequence[RetentionRow], *, now: int, after: int = 0, dry: bool = False
) -> tuple[Part, bool]:
    """Cut the journals of a part of the runs that go on, and empty their old checkpoints.

    Returns what it did, and whether the last run it looked at has more to be cut.
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
    entries = count = cut = 0
    for run in locked.values():
        done = _prune_one(tx, run, by_name[names[run.program]], now, dry=dry)
        cut, entries, count = cut + bool(done[0]), entries + done[0], count + done[1]
        if not dry and done[0] >= ROWS:
            return Part(cut, entries, count, (0, run.id - 1)), True
    return Part(cut, entries, count, (0, last)), False


def _prune_one(tx: Tx, run: RunRow, rule: RetentionRow, now: int, *, dry: bool) -> tuple[int, int]:
    if run.state.final:
        return 0, 0
    below = tx.states([run.id])[run.id].seq
    emptied = False
    if rule.checkpoints is not None and not dry:
        before = now - rule.checkpoints
        old = [e for e in tx.whole_checkpoints(run.id, limit=ROWS) if e.at < before and e.seq < below]
        emptied = bool(old)
        if emptied:
            tx.empty_old(run.id, before=before, below=below)
    upto = entries = count = 0
    if rule.journal is not None:
        upto, entries, count = tx.old_entries(run.id, before=now - rule.journal, below=below, limit=ROWS)
    if entries and not dry:
        tx.cut_journal(run.id, upto)
        if upto:
            tx.put_prune(PruneRow(run.id, upto, now, f"the retention of `{rule.program}`"))
    if (entries or emptied) and not dry and entries < ROWS:
        tx.forget_blobs(run.id)
    return entries, count


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
            part = prune_ended(tx, program.id, now - rule.runs, f"the retention of `{program.name}`")
            if part.runs or part.after == BEGINNING:
                return Swept(0, more=True)
    walked = int(tx.get_meta(WALKED) or 0)
    part, more = prune_open(tx, rules, now=now, after=walked)
    tx.put_meta(WALKED, str(0 if part.after is None else part.after[1]))
    return Swept(0, more=more)
