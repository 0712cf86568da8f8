"""The hot path on SQLite: claim, append, leave. A few statements for a whole batch inside one transaction.

The fence is a `WHERE` over the leases: token, epoch and head, and no cancel where that matters (G1, G12). It says what
`core.lease.fence` says; tests/conformance holds the two against each other. `append` moves the leases with it; `leave`
asks with it and then ends them: SQLite has one writer, so what was found is still so, and that as many end is checked.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from torpor.core.journal import Kind, Stored
from torpor.core.lease import Lease
from torpor.core.run import LASTING, Flag, State, parked_as
from torpor.core.wait import Signal, WaitKind
from torpor.store import texts
from torpor.store.batches import once_each
from torpor.store.rows import Claimed, Left, RunRow, StateRow, WaitRow
from torpor.store.sqlite import together

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from torpor.store.rows import Append, Claim, Leave

RUN_COLUMNS = (
    "id, created_at, due_at, parent, tenant, program, epoch, head, inbox, seen, branch, "
    "state, prio, takeovers, stalls, flags"
)
ENTRY_COLUMNS = "seq, at, epoch, kind, key, body"
WAIT_COLUMNS = "run_id, slot, seq, kind, due_at, answered_at, title, answer, over, need, members"

# The index is named, because SQLite's planner knows nothing of sizes and likes the one that is for people.
_TENANT = """SELECT min((SELECT tenant FROM runs INDEXED BY runs_ready
    WHERE state = 1 AND program = p.value AND tenant > ?2 ORDER BY tenant LIMIT 1)) FROM json_each(?1) p"""
_NEXT = """SELECT json_group_array(json_array(prio, due_at, id)) FROM (SELECT prio, due_at, id FROM runs INDEXED BY runs_ready
    WHERE state = 1 AND program = ? AND tenant = ? ORDER BY prio, due_at, id LIMIT ?)"""
_TAKE = "UPDATE runs SET state = 3, epoch = epoch + 1 WHERE id IN (SELECT value FROM json_each(?))"
_LEND = together.adding("leases (run_id, token, epoch, head, worker, expires_at, flags)")
_HOLDING = """SELECT json_group_array(l.run_id) FROM (VALUES (rows)) v CROSS JOIN leases l
    ON l.run_id = v.column1 AND l.token = v.column2 AND l.epoch = v.column3 AND l.head = v.column4
    WHERE l.flags & v.column5 = 0"""
_FENCE = """UPDATE leases SET head = head + ?, expires_at = ?
    WHERE run_id = ? AND token = ? AND epoch = ? AND head = ? AND flags & ? = 0 RETURNING flags"""
_FENCE_ALL = """UPDATE leases SET head = leases.head + v.column5, expires_at = v.column6 FROM (VALUES (rows)) v
    WHERE run_id = v.column1 AND token = v.column2 AND epoch = v.column3 AND head = v.column4 AND flags = 0"""
_CONSUME = "UPDATE inbox SET body = NULL FROM (VALUES (rows)) v WHERE run_id = v.column1 AND seq = v.column2"
_FEW = 3
"""So many rows are not worth a savepoint."""
_END = "DELETE FROM leases WHERE run_id IN (SELECT value FROM json_each(?))"
_ADD = together.adding("journal (run_id, seq, at, epoch, kind, key, body)")
_PARK = """UPDATE runs SET head = v.column2, seen = v.column3, stalls = 0, flags = v.column4, state = v.column5,
    due_at = v.column6 FROM (VALUES (rows)) v WHERE id = v.column1"""

_CANCEL, _LASTING = int(Flag.CANCEL), int(LASTING)

KINDS = {int(kind): kind for kind in Kind}
STATES = {int(state): state for state in State}
flags_of = lru_cache(Flag)
"""The flags behind a number: an enum takes its time to find out."""


def run_row(row: Sequence[Any]) -> RunRow:
    """Return a run from its columns."""
    return RunRow._make((*row[:11], STATES[row[11]], *row[12:15], flags_of(row[15])))


def entry_row(row: Sequence[Any]) -> Stored:
    """Return an entry from its columns."""
    seq, at, epoch, kind, key, body = row
    return Stored(seq, at, epoch, KINDS[kind], key, body)


def wait_row(row: Sequence[Any]) -> WaitRow:
    """Return a wait from its columns."""
    return WaitRow._make((*row[:3], WaitKind(row[3]), *row[4:8], bool(row[8]), *row[9:], None))


def claim(db: sqlite3.Connection, wanted: Claim, now: int) -> list[Claimed]:
    """Make ready runs running and read everything about them."""
    ids = _next_runs(db, wanted)
    if not ids:
        return []
    db.execute(_TAKE, (json.dumps(ids),))
    runs = read_runs(db, ids)
    expires_at = now + wanted.lease_micros
    leases = [
        Lease(run.id, wanted.token, run.epoch, run.head, wanted.worker, expires_at, run.flags) for run in runs.values()
    ]
    together.write(db, _LEND, [(*lease[:6], int(lease.flags)) for lease in leases])
    claimed = {
        lease.run_id: Claimed(runs[lease.run_id], lease, state)
        for lease, state in zip(leases, _states(db, list(runs)), strict=True)
    }
    _read_rest(db, claimed)
    return [claimed[run_id] for run_id in ids]


def _next_runs(db: sqlite3.Connection, wanted: Claim) -> list[int]:
    """Return ready runs of the next tenant that has some of these programs: nobody else's are walked past (G20)."""
    programs = json.dumps(wanted.programs)
    tenant = db.execute(_TENANT, (programs, wanted.after_tenant)).fetchone()[0]
    if tenant is None and wanted.after_tenant > 0:
        tenant = db.execute(_TENANT, (programs, 0)).fetchone()[0]
    if tenant is None:
        return []
    found: list[tuple[int, int, int]] = []
    for program in wanted.programs:
        found += json.loads(db.execute(_NEXT, (program, tenant, wanted.limit)).fetchone()[0])
    return [run_id for _, _, run_id in sorted(found)[: wanted.limit]]


def read_runs(db: sqlite3.Connection, ids: Sequence[int]) -> dict[int, RunRow]:
    """Return runs by number, in order of number."""
    rows = together.read_by_number(db, RUN_COLUMNS, "FROM runs WHERE id IN", ids)
    return {row[0]: run_row(row) for row in sorted(rows)}


def _states(db: sqlite3.Connection, ids: Sequence[int]) -> list[StateRow]:
    rows = db.execute(
        "SELECT run_id, seq, at, turn, body FROM states WHERE run_id IN (SELECT value FROM json_each(?)) ORDER BY run_id",
        (json.dumps(ids),),
    )
    return [StateRow._make(row) for row in rows]


def _read_rest(db: sqlite3.Connection, claimed: dict[int, Claimed]) -> None:
    """Read what not every run has: entries above its checkpoint, open waits, unread signals."""
    for run_id, one in claimed.items():
        run, state = one.run, one.state
        if run.head > state.seq:
            rows = db.execute(
                f"SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = ? AND seq > ? ORDER BY seq", (run_id, state.seq)
            )
            one.entries = [entry_row(row) for row in rows]
        if run.inbox:
            rows = db.execute(
                "SELECT seq, at, name, body, sender FROM inbox WHERE run_id = ? AND body IS NOT NULL ORDER BY seq",
                (run_id,),
            )
            one.unread = [Signal(*row) for row in rows]
    woken = [run_id for run_id, one in claimed.items() if one.run.epoch > 1]
    if woken:
        rows = db.execute(
            f"SELECT {WAIT_COLUMNS} FROM waits WHERE run_id IN (SELECT value FROM json_each(?)) AND over = 0"
            " ORDER BY run_id, seq, slot",
            (json.dumps(woken),),
        )
        for row in rows:
            claimed[row[0]].waits.append(wait_row(row))


def append(db: sqlite3.Connection, rows: Sequence[Append], now: int, lease_micros: int) -> dict[int, Flag]:
    """Apply fenced appends; return the flags of those that were not refused."""
    _check(rows)
    expires_at = now + lease_micros
    if len(rows) > _FEW and _fence_all(db, rows, expires_at):
        accepted = {row.run_id: Flag.NONE for row in rows}
    else:
        accepted = _fence_each(db, rows, expires_at)
    _add_entries(db, [row for row in rows if row.run_id in accepted], now)
    taken = [(row.run_id, seq) for row in rows if row.taken and row.run_id in accepted for seq in row.taken]
    if taken:
        take(db, taken)
    return accepted


def take(db: sqlite3.Connection, signals: Sequence[tuple[int, int]]) -> None:
    """Consume signals, given as (run, seq): gone without a key, emptied with one."""
    db.executemany("DELETE FROM inbox WHERE run_id = ? AND seq = ? AND key IS NULL", signals)
    together.write(db, _CONSUME, signals)


def _check(rows: Sequence[Append]) -> None:
    once_each([row.run_id for row in rows])
    texts.check((entry.key for row in rows for entry in row.entries), "an entry's key")


def _fence_all(db: sqlite3.Connection, rows: Sequence[Append], expires_at: int) -> bool:
    """Move the heads and extend the leases of all rows, or change nothing (G1).

    False if one was refused or carries any flag: the caller then asks row by row, which also tells which.
    """
    fences = [(*row[:4], len(row.entries), expires_at) for row in rows]
    db.execute("SAVEPOINT fence")
    whole = together.write(db, _FENCE_ALL, fences) == len(rows)
    if not whole:
        db.execute("ROLLBACK TO fence")
    db.execute("RELEASE fence")
    return whole


def _fence_each(db: sqlite3.Connection, rows: Sequence[Append], expires_at: int) -> dict[int, Flag]:
    accepted: dict[int, Flag] = {}
    for run_id, token, epoch, head, forbids_cancel, added, _ in rows:
        given = (len(added), expires_at, run_id, token, epoch, head, int(forbids_cancel))
        flags = db.execute(_FENCE, given).fetchone()
        if flags is not None:
            accepted[run_id] = flags_of(flags[0])
    return accepted


def _add_entries(db: sqlite3.Connection, rows: Sequence[Append], now: int) -> None:
    entries = [
        (run_id, seq, now, epoch, int(kind), key, body)
        for run_id, _, epoch, head, _, added, _ in rows
        for seq, (kind, key, body) in enumerate(added, start=head + 1)
    ]
    together.write(db, _ADD, entries)


def leave(db: sqlite3.Connection, rows: Sequence[Leave], now: int) -> dict[int, Left]:
    """Apply fenced appends that end the stretch; return what became of the runs that were not refused."""
    appends = [row.append for row in rows]
    _check(appends)
    holding = set(together.read(db, _HOLDING, [(*one[:4], int(one.forbids_cancel)) for one in appends]))
    passed = [row for row in rows if row.append.run_id in holding]
    ids = [row.append.run_id for row in passed]
    ended = db.execute(_END, (json.dumps(ids),)).rowcount
    if ended != len(passed):  # nobody else writes in between
        message = f"G1: the fence let {len(passed)} runs leave, and {ended} leases ended"
        raise AssertionError(message)
    _add_entries(db, [row.append for row in passed], now)
    known = {row[0]: row for row in together.read_by_number(db, "id, inbox, flags", "FROM runs WHERE id IN", ids)}
    left: dict[int, Left] = {}
    parked = []
    for row in passed:
        run_id, inbox, before = known[row.append.run_id]
        state = row.after
        if state is State.WAITING:
            cancel, undoing = before & _CANCEL > 0, Flag.UNDOING in row.flags
            state = parked_as(inbox=inbox, seen=row.seen, cancel=cancel, undoing=undoing)
        flags = before & _LASTING | int(row.flags)
        due_at = row.due_at if state is State.WAITING else now
        parked.append((run_id, row.append.head + len(row.append.entries), row.seen, flags, int(state), due_at))
        left[run_id] = Left(state, flags_of(flags))
    together.write(db, _PARK, parked)
    return left
