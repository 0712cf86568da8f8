"""Verbs on SQLite: leases, workers, sweeps, facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.lease import Lease
from torpor.core.run import Flag
from torpor.store import texts
from torpor.store.rows import WorkerRow
from torpor.store.sqlite import together
from torpor.store.sqlite.begun import Begun
from torpor.store.sqlite.journal import LEAVING_HEX, MARK_HEX, UNNAMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import NewWorker

_TIMERS = "runs INDEXED BY runs_timer WHERE state = 2 AND due_at IS NOT NULL"
_LEASE_COLUMNS = "run_id, token, epoch, head, worker, expires_at, flags"


def _lease(row: Sequence[Any]) -> Lease:
    return Lease._make((*row[:6], Flag(row[6])))


class LeaseVerbs(Begun):
    """Leases, workers, sweeps, facts about the store."""

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

    def nobodys_leases(self, *, limit: int) -> list[Lease]:
        """Return leases of workers without a row."""
        rows = self._db.execute(
            f"SELECT {_LEASE_COLUMNS} FROM leases WHERE NOT EXISTS (SELECT 1 FROM workers WHERE id = worker) LIMIT ?",
            (limit,),
        )
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
        self._db.executemany(
            "UPDATE leases SET flags = flags | ? WHERE run_id = ?", [(int(flags), run_id) for run_id in ids]
        )

    def drop_leases(self, ids: Sequence[int]) -> None:
        """End leases."""
        self._db.executemany("DELETE FROM leases WHERE run_id = ?", [(run_id,) for run_id in ids])

    def put_worker(self, worker: NewWorker) -> int:
        """Write a worker."""
        texts.check((worker.name, worker.host, worker.life, worker.programs), "a worker's name or programs")
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
        rows = self._db.execute(
            "SELECT id, name, host, pid, life, started_at, seen_at, programs FROM workers ORDER BY id"
        )
        return [WorkerRow(*row) for row in rows]

    def drop_workers(self, ids: Sequence[int]) -> None:
        """Forget workers without leases."""
        self._db.executemany(
            "DELETE FROM workers WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM leases WHERE worker = ?1)",
            [(worker,) for worker in ids],
        )

    def due_runs(self, *, before: int, limit: int) -> list[int]:
        """Return waiting runs whose time has come."""
        due = f"SELECT id AS n FROM {_TIMERS} AND due_at <= ? ORDER BY due_at LIMIT ?"
        return together.read_numbers(self._db, due, (before, limit))

    def next_due(self) -> int | None:
        """Return the least due time of a waiting run."""
        row = self._db.execute(f"SELECT due_at FROM {_TIMERS} ORDER BY due_at LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def sweep_blobs(self, *, before: int, limit: int) -> int:
        """Remove blobs nobody names."""
        old = self._errands.listed(self.now() - before)
        self._db.executemany(
            f"INSERT INTO blobs (digest, at, body) VALUES (?, 0, {LEAVING_HEX}) ON CONFLICT DO NOTHING",
            [(d,) for d in old],
        )
        away = f"substr(body, 1, 1) IN ({MARK_HEX}, {LEAVING_HEX})"
        unnamed = f"SELECT digest FROM blobs b WHERE at < ? AND {UNNAMED.format('b.digest')}"
        here = self._db.execute(
            f"DELETE FROM blobs WHERE digest IN ({unnamed} AND NOT {away} ORDER BY at LIMIT ?)", (before, limit)
        )
        if not self._errands.outside:
            return here.rowcount
        leaving = self._db.execute(
            f"UPDATE blobs SET body = CAST({LEAVING_HEX} || substr(body, 2) AS BLOB)"
            f" WHERE digest IN ({unnamed} AND {away} ORDER BY at LIMIT ?) RETURNING digest",
            (before, limit),
        ).fetchall()
        self._errands.leave([row[0] for row in leaving])
        return here.rowcount + len(leaving)

    def get_meta(self, key: str) -> str | None:
        """Return a fact."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put_meta(self, key: str, value: str) -> None:
        """Write a fact."""
        texts.check((key, value), "a fact")
        self._db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
