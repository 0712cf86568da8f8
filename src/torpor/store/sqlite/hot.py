"""The hot path on SQLite: claim, append, leave. Loops of prepared statements inside one transaction.

The fence is the `WHERE` of the lease's update: token, epoch and head, and no cancel where that matters (G1, G12). It
says what `core.lease.fence` says; tests/conformance holds the two against each other.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torpor.core.journal import Kind, Stored
from torpor.core.lease import Lease
from torpor.core.run import LASTING, Flag, State
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
_NEXT = """SELECT prio, due_at, id FROM runs INDEXED BY runs_ready
    WHERE state = 1 AND program = ? AND tenant = ? ORDER BY prio, due_at, id LIMIT ?"""
_RUN = f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?"
_FENCE = """UPDATE leases SET head = head + ?, expires_at = ?
    WHERE run_id = ? AND token = ? AND epoch = ? AND head = ? AND flags & ? = 0 RETURNING flags"""
_FENCE_LEAVE = (
    "DELETE FROM leases WHERE run_id = ? AND token = ? AND epoch = ? AND head = ? AND flags & ? = 0 RETURNING flags"
)
_PARK = f"""UPDATE runs SET head = ?, seen = ?, stalls = 0, flags = (flags & {int(LASTING)}) | ?,
    state = CASE WHEN ?4 <> 2 THEN ?4 WHEN inbox > ?2 OR (flags & 1) > (?3 & 128) THEN 1 ELSE 2 END,
    due_at = CASE WHEN ?4 <> 2 THEN ?5 WHEN inbox > ?2 OR (flags & 1) > (?3 & 128) THEN ?5 ELSE ?6 END
    WHERE id = ?7 RETURNING state, flags"""


KINDS = {int(kind): kind for kind in Kind}


def run_row(row: Sequence[Any]) -> RunRow:
    """Return a run from its columns."""
    return RunRow._make((*row[:11], State(row[11]), *row[12:15], Flag(row[15])))


def entry_row(row: Sequence[Any]) -> Stored:
    """Return an entry from its columns."""
    seq, at, epoch, kind, key, body = row
    return Stored(seq, at, epoch, KINDS[kind], key, body)


def wait_row(row: Sequence[Any]) -> WaitRow:
    """Return a wait from its columns."""
    return WaitRow._make((*row[:3], WaitKind(row[3]), *row[4:8], bool(row[8]), *row[9:], None))


def claim(db: sqlite3.Connection, wanted: Claim, now: int) -> list[Claimed]:
    """Make ready runs running and read everything about them."""
    expires_at = now + wanted.lease_micros
    claimed = []
    for run_id in _next_runs(db, wanted):
        run = run_row(db.execute(_RUN, (run_id,)).fetchone())
        run = run._replace(epoch=run.epoch + 1, state=State.RUNNING)
        lease = Lease(run.id, wanted.token, run.epoch, run.head, wanted.worker, expires_at, run.flags)
        claimed.append(_take(db, run, lease))
    return claimed


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
        found += db.execute(_NEXT, (program, tenant, wanted.limit))
    return [run_id for _, _, run_id in sorted(found)[: wanted.limit]]


def _take(db: sqlite3.Connection, run: RunRow, lease: Lease) -> Claimed:
    db.execute("UPDATE runs SET state = 3, epoch = ? WHERE id = ?", (run.epoch, run.id))
    db.execute(
        "INSERT INTO leases (run_id, token, epoch, head, worker, expires_at, flags) VALUES (?, ?, ?, ?, ?, ?, ?)", lease
    )
    state = StateRow(
        *db.execute("SELECT run_id, seq, at, turn, body FROM states WHERE run_id = ?", (run.id,)).fetchone()
    )
    entries, waits, unread = [], [], []
    if run.head > state.seq:
        rows = db.execute(
            f"SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = ? AND seq > ? ORDER BY seq", (run.id, state.seq)
        )
        entries = [entry_row(row) for row in rows]
    if run.epoch > 1:
        rows = db.execute(
            f"SELECT {WAIT_COLUMNS} FROM waits WHERE run_id = ? AND over = 0 ORDER BY seq, slot", (run.id,)
        )
        waits = [wait_row(row) for row in rows]
    if run.inbox:
        rows = db.execute(
            "SELECT seq, at, name, body, sender FROM inbox WHERE run_id = ? AND body IS NOT NULL ORDER BY seq",
            (run.id,),
        )
        unread = [Signal(*row) for row in rows]
    return Claimed(run, lease, state, entries, waits, unread)


def append(db: sqlite3.Connection, rows: Sequence[Append], now: int, lease_micros: int) -> dict[int, Flag]:
    """Apply fenced appends; return the flags of those that were not refused."""
    once_each([row.run_id for row in rows])
    texts.check((entry.key for row in rows for entry in row.entries), "an entry's key")
    expires_at = now + lease_micros
    if len(rows) > together.FEW and together.fence_all(db, rows, expires_at):
        accepted = {row.run_id: Flag.NONE for row in rows}
    else:
        accepted = _fence_each(db, rows, expires_at)
    together.add_entries(db, [row for row in rows if row.run_id in accepted], now)
    return accepted


def _fence_each(db: sqlite3.Connection, rows: Sequence[Append], expires_at: int) -> dict[int, Flag]:
    accepted: dict[int, Flag] = {}
    for run_id, token, epoch, head, forbids_cancel, added in rows:
        given = (len(added), expires_at, run_id, token, epoch, head, int(forbids_cancel))
        flags = db.execute(_FENCE, given).fetchone()
        if flags is not None:
            accepted[run_id] = Flag(flags[0])
    return accepted


def leave(db: sqlite3.Connection, rows: Sequence[Leave], now: int) -> dict[int, Left]:
    """Apply fenced appends that end the stretch; return what became of the runs that were not refused."""
    once_each([row.append.run_id for row in rows])
    texts.check((entry.key for row in rows for entry in row.append.entries), "an entry's key")
    left: dict[int, Left] = {}
    for fenced, after, seen, due_at, flags in rows:
        run_id, token, epoch, head, forbids_cancel, added = fenced
        if db.execute(_FENCE_LEAVE, (run_id, token, epoch, head, int(forbids_cancel))).fetchone() is None:
            continue
        together.add_entries(db, [fenced], now)
        row = db.execute(_PARK, (head + len(added), seen, int(flags), int(after), now, due_at, run_id)).fetchone()
        left[run_id] = Left(State(row[0]), Flag(row[1]))
    return left
