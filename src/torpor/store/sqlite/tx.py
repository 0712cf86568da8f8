"""One transaction on SQLite: the verbs of `store.protocol.Tx`, except the hot ones, as plain statements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torpor.core.lease import Lease
from torpor.core.run import Flag, State
from torpor.core.wait import Signal
from torpor.store.rows import Kept, MessageRow, ProgramRow, StateRow, WorkerRow
from torpor.store.sqlite import hot
from torpor.store.sqlite.hot import ENTRY_COLUMNS, RUN_COLUMNS, WAIT_COLUMNS, entry_row, run_row, wait_row

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from torpor.core.commit import Blob, NewMessage, NewRow
    from torpor.core.journal import Stored
    from torpor.store.rows import (
        Append,
        Claim,
        Claimed,
        Leave,
        NewRun,
        NewSignal,
        NewWorker,
        RunChange,
        RunFilter,
        RunRow,
        WaitRow,
    )

_LEASE_COLUMNS = "run_id, token, epoch, head, worker, expires_at, flags"
_CHANGE = """UPDATE runs SET state = coalesce(?, state), due_at = CASE WHEN ? IS NULL THEN due_at ELSE ? END,
    head = coalesce(?, head), program = coalesce(?, program), flags = coalesce(?, flags), inbox = inbox + ?,
    takeovers = takeovers + ?, stalls = coalesce(?, stalls) WHERE id = ?"""


def _lease(row: Sequence[Any]) -> Lease:
    made = Lease(*row)
    return made._replace(flags=Flag(made.flags))


class SqliteTx:
    """One transaction. `hints` is filled and sent by the store after the commit."""

    def __init__(self, db: sqlite3.Connection, clock: Callable[[], int]) -> None:
        """Begin to speak to an open transaction."""
        self._db = db
        self._clock = clock
        self._now: int | None = None
        self.hints: list[str] = []

    def now(self) -> int:
        """Return the host's clock, read once: on SQLite it is the database's."""
        if self._now is None:
            self._now = self._clock()
        return self._now

    def hint(self, topic: str) -> None:
        """Remember a hint for after the commit."""
        if topic not in self.hints:
            self.hints.append(topic)

    def connection(self) -> sqlite3.Connection:
        """Return the connection of this transaction."""
        return self._db

    # programs and tenants

    def intern_programs(self, programs: Sequence[tuple[str, int, str]]) -> list[int]:
        """Return the numbers of programs, writing new ones."""
        self._db.executemany(
            "INSERT INTO programs (name, version, source) VALUES (?, ?, ?)"
            " ON CONFLICT (name, version) DO UPDATE SET source = excluded.source WHERE source <> excluded.source",
            programs,
        )
        known = {(row.name, row.version): row.id for row in self.programs()}
        return [known[name, version] for name, version, _ in programs]

    def programs(self) -> list[ProgramRow]:
        """Return all programs."""
        return [ProgramRow(*row) for row in self._db.execute("SELECT id, name, version, source FROM programs ORDER BY id")]

    def intern_tenants(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of tenants, writing new ones."""
        self._db.executemany("INSERT INTO tenants (name) VALUES (?) ON CONFLICT DO NOTHING", [(name,) for name in names])
        return [self._db.execute("SELECT id FROM tenants WHERE name = ?", (name,)).fetchone()[0] for name in names]

    # runs

    def insert_runs(self, runs: Sequence[NewRun]) -> list[int]:
        """Insert runs and their first states."""
        now, ids = self.now(), []
        for run in runs:
            state = State.READY if run.due_at is None else State.WAITING
            due_at = now if run.due_at is None else run.due_at
            values = (now, due_at, run.parent, run.tenant, run.program, state, run.priority)
            cursor = self._db.execute(
                "INSERT INTO runs (created_at, due_at, parent, tenant, program, state, prio) VALUES (?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            ids.append(cursor.lastrowid or 0)
        self._db.executemany(
            "INSERT INTO states (run_id, seq, at, turn, body) VALUES (?, 0, ?, 1, ?)",
            [(run_id, now, run.body) for run_id, run in zip(ids, runs, strict=True)],
        )
        return ids

    def claim_keys(self, keys: Sequence[tuple[bytes, int]]) -> dict[bytes, int]:
        """Bind keys that are free; return what each is bound to."""
        self._db.executemany("INSERT INTO run_keys (digest, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING", keys)
        return {
            digest: self._db.execute("SELECT run_id FROM run_keys WHERE digest = ?", (digest,)).fetchone()[0]
            for digest, _ in keys
        }

    def drop_runs(self, ids: Sequence[int]) -> None:
        """Remove runs that lost their key."""
        for table, column in (("runs", "id"), ("states", "run_id"), ("blob_runs", "run_id")):
            self._db.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(run_id,) for run_id in ids])  # noqa: S608 - two fixed names

    def get_runs(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, RunRow]:
        """Return runs; the one writer of SQLite needs no row locks."""
        del lock, skip_locked
        rows = self._many(f"SELECT {RUN_COLUMNS} FROM runs WHERE id IN", ids)
        return {row[0]: run_row(row) for row in rows}

    def _many(self, statement: str, ids: Sequence[int], rest: str = "") -> list[Any]:
        return self._db.execute(f"{statement} (SELECT value FROM json_each(?)) {rest}", (json.dumps(list(ids)),)).fetchall()

    def list_runs(self, wanted: RunFilter) -> list[RunRow]:
        """Return runs for people, newest first."""
        states = json.dumps([int(state) for state in wanted.states] if wanted.states is not None else [1, 2, 3, 4, 5, 6])
        programs = None if wanted.programs is None else json.dumps(wanted.programs)
        rows = self._db.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE state IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR id < ?2)"
            " AND (?3 IS NULL OR program IN (SELECT value FROM json_each(?3))) ORDER BY id DESC LIMIT ?4",
            (states, wanted.before, programs, wanted.limit),
        )
        return [run_row(row) for row in rows]

    def count_runs(self, states: Sequence[State], *, most: int) -> dict[State, int]:
        """Count runs by state, capped."""
        count = "SELECT count(*) FROM (SELECT 1 FROM runs WHERE state = {} LIMIT ?)"  # the number inside: partial indexes
        return {
            state: self._db.execute(count.format(int(state)), (most,)).fetchone()[0]  # noqa: S608 - a number of our own
            for state in states
        }

    def change_runs(self, changes: Sequence[RunChange]) -> None:
        """Apply changes."""
        self._db.executemany(
            _CHANGE,
            [
                (c.state, c.due_at, c.due_at, c.head, c.program, c.flags, c.inbox, c.takeovers, c.stalls, c.id)
                for c in changes
            ],
        )

    # the hot path

    def claim(self, wanted: Claim) -> list[Claimed]:
        """Make ready runs running."""
        return hot.claim(self._db, wanted, self.now())

    def append(self, rows: Sequence[Append], *, lease_micros: int) -> dict[int, Flag]:
        """Append under the fence."""
        return hot.append(self._db, rows, self.now(), lease_micros)

    def leave(self, rows: Sequence[Leave]) -> dict[int, State]:
        """Append under the fence and end the stretch."""
        return hot.leave(self._db, rows, self.now())

    # what travels in a commit

    def put_states(self, states: Sequence[StateRow]) -> None:
        """Overwrite checkpoints."""
        self._db.executemany(
            "UPDATE states SET seq = ?, at = ?, turn = ?, body = ? WHERE run_id = ?",
            [(row.seq, row.at, row.turn, row.body, row.run_id) for row in states],
        )

    def put_waits(self, waits: Sequence[WaitRow]) -> None:
        """Write waits into their slots."""
        self._db.executemany(
            f"INSERT OR REPLACE INTO waits ({WAIT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*row[:8], int(row.over)) for row in waits],
        )

    def end_waits(self, slots: Sequence[tuple[int, int]]) -> None:
        """Mark slots as over."""
        self._db.executemany("UPDATE waits SET over = 1 WHERE run_id = ? AND slot = ?", slots)

    def take_signals(self, signals: Sequence[tuple[int, int]]) -> None:
        """Consume signals."""
        self._db.executemany("DELETE FROM inbox WHERE run_id = ? AND seq = ? AND key IS NULL", signals)
        self._db.executemany("UPDATE inbox SET body = NULL WHERE run_id = ? AND seq = ?", signals)

    def add_rows(self, rows: Sequence[tuple[int, NewRow]]) -> None:
        """Append elements of `Rows` fields."""
        self._db.executemany("INSERT INTO rows (run_id, field, n, body) VALUES (?, ?, ?, ?)", [(r, *row) for r, row in rows])

    def get_rows(self, run: int, field: str, *, after: int, limit: int) -> list[bytes]:
        """Return elements of a `Rows` field."""
        rows = self._db.execute(
            "SELECT body FROM rows WHERE run_id = ? AND field = ? AND n >= ? ORDER BY n LIMIT ?", (run, field, after, limit)
        )
        return [row[0] for row in rows]

    def add_messages(self, messages: Sequence[tuple[int, NewMessage]]) -> None:
        """Put messages into the outbox."""
        self._db.executemany(
            "INSERT INTO outbox (run_id, target, name, key, body) VALUES (?, ?, ?, ?, ?)", [(r, *m) for r, m in messages]
        )

    def put_blobs(self, blobs: Sequence[tuple[int, Blob]]) -> None:
        """Write packed blobs."""
        now = self.now()
        self._db.executemany(
            "INSERT INTO blobs (digest, at, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(blob.digest, now, blob.body) for _, blob in blobs],
        )
        self._db.executemany(
            "INSERT INTO blob_runs (digest, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [(blob.digest, run_id) for run_id, blob in blobs],
        )

    def get_blobs(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return packed blobs."""
        found = {}
        for digest in digests:
            row = self._db.execute("SELECT body FROM blobs WHERE digest = ?", (digest,)).fetchone()
            if row is not None:
                found[digest] = row[0]
        return found

    # journal

    def journal(self, run: int, *, after: int = 0, limit: int = 10_000) -> list[Stored]:
        """Return entries above `after`."""
        rows = self._db.execute(
            f"SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?", (run, after, limit)
        )
        return [entry_row(row) for row in rows]

    def journal_tail(self, run: int, *, limit: int) -> list[Stored]:
        """Return the newest entries."""
        rows = self._db.execute(
            f"SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = ? ORDER BY seq DESC LIMIT ?", (run, limit)
        ).fetchall()
        return [entry_row(row) for row in reversed(rows)]

    def entries(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Stored]:
        """Return entries by place."""
        found = {}
        for place in places:
            row = self._db.execute(f"SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = ? AND seq = ?", place).fetchone()
            if row is not None:
                found[place] = entry_row(row)
        return found

    def states(self, ids: Sequence[int]) -> dict[int, StateRow]:
        """Return current checkpoints."""
        rows = self._many("SELECT run_id, seq, at, turn, body FROM states WHERE run_id IN", ids)
        return {row[0]: StateRow(*row) for row in rows}

    def open_intents(self, ids: Sequence[int]) -> dict[int, list[Stored]]:
        """Return intents without outcome."""
        found: dict[int, list[Stored]] = {}
        for run_id in ids:
            rows = self._db.execute(
                f"SELECT {ENTRY_COLUMNS} FROM journal i WHERE run_id = ?1 AND kind = 1"
                " AND seq > (SELECT seq FROM states WHERE run_id = ?1) AND NOT EXISTS (SELECT 1 FROM journal o"
                " WHERE o.run_id = ?1 AND o.key = i.key AND o.seq > i.seq AND o.kind IN (2, 7)) ORDER BY seq",
                (run_id,),
            ).fetchall()
            if rows:
                found[run_id] = [entry_row(row) for row in rows]
        return found

    # waits and signals

    def waits(self, ids: Sequence[int], *, over: bool = False) -> list[WaitRow]:
        """Return the waits of runs."""
        rest = "ORDER BY run_id, seq, slot" if over else "AND over = 0 ORDER BY run_id, seq, slot"
        return [wait_row(row) for row in self._many(f"SELECT {WAIT_COLUMNS} FROM waits WHERE run_id IN", ids, rest)]

    def people_waits(self, *, limit: int) -> list[WaitRow]:
        """Return open waits for people."""
        rows = self._db.execute(
            f"SELECT {WAIT_COLUMNS} FROM waits WHERE over = 0 AND answered_at IS NULL AND kind IN (3, 4)"
            " ORDER BY seq, run_id LIMIT ?",
            (limit,),
        )
        return [wait_row(row) for row in rows]

    def answer_wait(self, run: int, slot: int, seq: int, answer: bytes) -> bool:
        """Write a decision unless there is one."""
        cursor = self._db.execute(
            "UPDATE waits SET answered_at = ?, answer = ? WHERE run_id = ? AND slot = ? AND seq = ?"
            " AND answered_at IS NULL AND over = 0",
            (self.now(), answer, run, slot, seq),
        )
        return cursor.rowcount == 1

    def add_signals(self, signals: Sequence[NewSignal]) -> list[Kept]:
        """Keep signals and wake their runs."""
        return [self._add_signal(signal) for signal in signals]

    def _add_signal(self, signal: NewSignal) -> Kept:
        row = self._db.execute("SELECT inbox, state FROM runs WHERE id = ?", (signal.run_id,)).fetchone()
        if row is None:
            return Kept.NO_RUN
        if State(row[1]).final:
            return Kept.FINAL
        cursor = self._db.execute(
            "INSERT INTO inbox (run_id, seq, at, name, key, sender, body) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (signal.run_id, row[0] + 1, self.now(), signal.name, signal.key, signal.sender, signal.body),
        )
        if cursor.rowcount != 1:
            return Kept.DUPLICATE
        self._db.execute(
            "UPDATE runs SET inbox = inbox + 1, due_at = CASE WHEN state = 2 THEN ? ELSE due_at END,"
            " state = CASE WHEN state = 2 THEN 1 ELSE state END WHERE id = ?",
            (self.now(), signal.run_id),
        )
        return Kept.NEW

    def unread(self, ids: Sequence[int]) -> dict[int, list[Signal]]:
        """Return unread signals."""
        found: dict[int, list[Signal]] = {}
        rows = self._many(
            "SELECT run_id, seq, at, name, body, sender FROM inbox WHERE body IS NOT NULL AND run_id IN", ids, "ORDER BY seq"
        )
        for run_id, *rest in rows:
            found.setdefault(run_id, []).append(Signal(*rest))
        return found

    def outbox(self, *, limit: int) -> list[MessageRow]:
        """Return the oldest messages."""
        rows = self._db.execute("SELECT id, run_id, target, name, key, body FROM outbox ORDER BY id LIMIT ?", (limit,))
        return [MessageRow(*row) for row in rows]

    def drop_messages(self, ids: Sequence[int]) -> None:
        """Remove delivered messages."""
        self._db.executemany("DELETE FROM outbox WHERE id = ?", [(message,) for message in ids])

    # leases and workers

    def leases(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, Lease]:
        """Return leases by run."""
        del lock, skip_locked
        rows = self._many(f"SELECT {_LEASE_COLUMNS} FROM leases WHERE run_id IN", ids)
        return {row[0]: _lease(row) for row in rows}

    def leases_of(self, worker: int, *, limit: int) -> list[Lease]:
        """Return leases of a worker."""
        rows = self._db.execute(f"SELECT {_LEASE_COLUMNS} FROM leases WHERE worker = ? LIMIT ?", (worker, limit))
        return [_lease(row) for row in rows]

    def expired_leases(self, *, before: int, limit: int) -> list[Lease]:
        """Return leases that ended."""
        rows = self._db.execute(f"SELECT {_LEASE_COLUMNS} FROM leases WHERE expires_at <= ? LIMIT ?", (before, limit))
        return [_lease(row) for row in rows]

    def all_leases(self, *, limit: int) -> list[Lease]:
        """Return leases for people."""
        return [_lease(row) for row in self._db.execute(f"SELECT {_LEASE_COLUMNS} FROM leases LIMIT ?", (limit,))]

    def renew(self, worker: int, leases: Sequence[tuple[int, int, int]], *, lease_micros: int) -> list[Lease]:
        """Extend leases that exist."""
        expires_at, renewed = self.now() + lease_micros, []
        for run_id, token, epoch in leases:
            row = self._db.execute(
                "UPDATE leases SET expires_at = ? WHERE run_id = ? AND token = ? AND epoch = ? AND worker = ?"
                f" RETURNING {_LEASE_COLUMNS}",
                (expires_at, run_id, token, epoch, worker),
            ).fetchone()
            if row is not None:
                renewed.append(_lease(row))
        return renewed

    def flag_leases(self, ids: Sequence[int], flags: Flag) -> None:
        """Add flags to leases."""
        self._db.executemany("UPDATE leases SET flags = flags | ? WHERE run_id = ?", [(int(flags), run_id) for run_id in ids])

    def drop_leases(self, ids: Sequence[int]) -> None:
        """End leases."""
        self._db.executemany("DELETE FROM leases WHERE run_id = ?", [(run_id,) for run_id in ids])

    def put_worker(self, worker: NewWorker) -> int:
        """Write a worker."""
        now = self.now()
        cursor = self._db.execute(
            "INSERT INTO workers (name, host, pid, life, programs, started_at, seen_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*worker, now, now),
        )
        return cursor.lastrowid or 0

    def see_worker(self, worker: int) -> None:
        """Say that a worker is alive."""
        self._db.execute("UPDATE workers SET seen_at = ? WHERE id = ?", (self.now(), worker))

    def workers(self) -> list[WorkerRow]:
        """Return all workers."""
        rows = self._db.execute("SELECT id, name, host, pid, life, started_at, seen_at, programs FROM workers ORDER BY id")
        return [WorkerRow(*row) for row in rows]

    def drop_workers(self, ids: Sequence[int]) -> None:
        """Forget workers without leases."""
        self._db.executemany(
            "DELETE FROM workers WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM leases WHERE worker = ?1)",
            [(worker,) for worker in ids],
        )

    # sweeps

    def due_runs(self, *, before: int, limit: int) -> list[int]:
        """Return waiting runs whose time has come."""
        rows = self._db.execute(
            "SELECT id FROM runs WHERE state = 2 AND due_at IS NOT NULL AND due_at <= ? ORDER BY due_at LIMIT ?", (before, limit)
        )
        return [row[0] for row in rows]

    def next_due(self) -> int | None:
        """Return the least due time of a waiting run."""
        row = self._db.execute("SELECT min(due_at) FROM runs WHERE state = 2 AND due_at IS NOT NULL").fetchone()
        return None if row[0] is None else int(row[0])

    def sweep_blobs(self, *, before: int, limit: int) -> int:
        """Remove blobs nobody names."""
        cursor = self._db.execute(
            "DELETE FROM blobs WHERE digest IN (SELECT digest FROM blobs b WHERE at < ? AND NOT EXISTS"
            " (SELECT 1 FROM blob_runs n WHERE n.digest = b.digest) ORDER BY at LIMIT ?)",
            (before, limit),
        )
        return cursor.rowcount

    # the store itself

    def get_meta(self, key: str) -> str | None:
        """Return a fact."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put_meta(self, key: str, value: str) -> None:
        """Write a fact."""
        self._db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
