"""Verbs on PostgreSQL: leases, workers, sweeps, facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.lease import Lease
from torpor.core.run import Flag
from torpor.store import texts
from torpor.store.postgres import hot
from torpor.store.postgres.arrays import ByteaArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.postgres.journal import LEAVING_HEX, MARK_HEX
from torpor.store.rows import WorkerRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import NewWorker

_COLUMNS = "run_id, token, epoch, head, worker, expires_at, flags"
_RENEW = f"""WITH {hot.MOMENT},
locked AS MATERIALIZED (SELECT l.run_id FROM leases l JOIN unnest(%(runs)s::bigint[], %(tokens)s::bigint[],
    %(epochs)s::int[]) AS a(run_id, token, epoch) ON l.run_id = a.run_id AND l.token = a.token AND l.epoch = a.epoch
    WHERE l.worker = %(worker)s ORDER BY l.run_id FOR UPDATE OF l)
UPDATE leases l SET expires_at = now + %(lease)s FROM locked, moment WHERE l.run_id = locked.run_id
RETURNING {_COLUMNS.replace("run_id", "l.run_id")}, now"""
_FLAG = """WITH locked AS MATERIALIZED (
    SELECT run_id FROM leases WHERE run_id = ANY(%(ids)s::bigint[]) ORDER BY run_id FOR UPDATE)
    UPDATE leases l SET flags = l.flags | %(flags)s::smallint FROM locked WHERE l.run_id = locked.run_id"""
_DROP = """WITH locked AS MATERIALIZED (
    SELECT run_id FROM leases WHERE run_id = ANY(%(ids)s::bigint[]) ORDER BY run_id FOR UPDATE)
    DELETE FROM leases l USING locked WHERE l.run_id = locked.run_id"""
_PUT_WORKER = f"""WITH {hot.MOMENT} INSERT INTO workers (name, host, pid, life, programs, started_at, seen_at)
    SELECT %(name)s, %(host)s, %(pid)s, %(life)s, %(programs)s, now, now FROM moment RETURNING id, seen_at"""
_DROP_WORKERS = """DELETE FROM workers w WHERE id = ANY(%(ids)s::int[])
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.worker = w.id)"""
_UNNAMED = """WITH gone AS MATERIALIZED (SELECT b.digest FROM blobs b WHERE b.at < %(before)s AND NOT EXISTS (
        SELECT 1 FROM blob_runs n WHERE n.digest = b.digest OFFSET 0) AND {where} ORDER BY b.at LIMIT %(limit)s
        FOR UPDATE OF b SKIP LOCKED)"""
_STILL = "b.digest = gone.digest AND NOT EXISTS (SELECT 1 FROM blob_runs n WHERE n.digest = b.digest)"
_AWAY = f"substring(b.body FOR 1) IN ({MARK_HEX}, {LEAVING_HEX})"
_SWEEP_INSIDE = f"{_UNNAMED.format(where=f'NOT {_AWAY}')} DELETE FROM blobs b USING gone WHERE {_STILL} RETURNING 1"
_SWEEP_OUTSIDE = f"""{_UNNAMED.format(where=_AWAY)} UPDATE blobs b SET body = {LEAVING_HEX} || substring(body FROM 2)
    FROM gone WHERE {_STILL} RETURNING b.digest"""
_NO_ROW_YET = f"""INSERT INTO blobs (digest, at, body) SELECT digest, 0, {LEAVING_HEX}
    FROM unnest(%(digests)s::bytea[]) AS d(digest) ORDER BY 1 ON CONFLICT DO NOTHING"""


def _lease(row: Sequence[Any]) -> Lease:
    return Lease._make((*row[:6], Flag(row[6])))


class LeaseVerbs(Begun):
    """Leases, workers, sweeps, facts about the store, hints."""

    def leases(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, Lease]:
        """Return leases by run; locked in order of number."""
        how = ("FOR UPDATE SKIP LOCKED" if skip_locked else "FOR UPDATE") if lock else ""
        statement = f"SELECT {_COLUMNS} FROM leases WHERE run_id = ANY(%(ids)s::bigint[]) ORDER BY run_id {how}"
        return {row[0]: _lease(row) for row in self._ask(statement, ids=longs(ids))}

    def leases_of(self, worker: int, *, limit: int) -> list[Lease]:
        """Return leases of a worker."""
        statement = f"SELECT {_COLUMNS} FROM leases WHERE worker = %(worker)s LIMIT %(limit)s"
        return [_lease(row) for row in self._ask(statement, worker=worker, limit=limit)]

    def expired_leases(self, *, before: int, limit: int) -> list[Lease]:
        """Return leases that ended."""
        statement = f"SELECT {_COLUMNS} FROM leases WHERE expires_at <= %(before)s LIMIT %(limit)s"
        return [_lease(row) for row in self._ask(statement, before=before, limit=limit)]

    def nobodys_leases(self, *, limit: int) -> list[Lease]:
        """Return leases of workers without a row."""
        nobodys = "NOT EXISTS (SELECT 1 FROM workers WHERE id = leases.worker)"
        statement = f"SELECT {_COLUMNS} FROM leases WHERE {nobodys} LIMIT %(limit)s"
        return [_lease(row) for row in self._ask(statement, limit=limit)]

    def all_leases(self, *, limit: int) -> list[Lease]:
        """Return leases for people."""
        return [_lease(row) for row in self._ask(f"SELECT {_COLUMNS} FROM leases LIMIT %(limit)s", limit=limit)]

    def renew(self, worker: int, leases: Sequence[tuple[int, int, int]], *, lease_micros: int) -> list[Lease]:
        """Extend leases that exist."""
        rows = self._ask(
            _RENEW,
            now=self._now,
            worker=worker,
            lease=lease_micros,
            runs=longs([lease[0] for lease in leases]),
            tokens=longs([lease[1] for lease in leases]),
            epochs=longs([lease[2] for lease in leases]),
        )
        self._now = rows[0][-1] if rows else self._now
        return [_lease(row[:-1]) for row in rows]

    def flag_leases(self, ids: Sequence[int], flags: Flag) -> None:
        """Add flags to leases."""
        self._tell(_FLAG, ids=longs(ids), flags=int(flags))

    def drop_leases(self, ids: Sequence[int]) -> None:
        """End leases."""
        self._tell(_DROP, ids=longs(ids))

    def put_worker(self, worker: NewWorker) -> int:
        """Write a worker."""
        texts.check((worker.name, worker.host, worker.life, worker.programs), "a worker's name or programs")
        row = self._ask(_PUT_WORKER, now=self._now, **worker._asdict())[0]
        self._now = row[1]
        return int(row[0])

    def see_worker(self, worker: int) -> None:
        """Say that a worker is alive."""
        self._tell("UPDATE workers SET seen_at = %(now)s WHERE id = %(worker)s", now=self.now(), worker=worker)

    def workers(self) -> list[WorkerRow]:
        """Return all workers."""
        statement = "SELECT id, name, host, pid, life, started_at, seen_at, programs FROM workers ORDER BY id"
        return [WorkerRow(*row) for row in self._ask(statement)]

    def drop_workers(self, ids: Sequence[int]) -> None:
        """Forget workers without leases."""
        self._tell(_DROP_WORKERS, ids=longs(ids))

    def due_runs(self, *, before: int, limit: int) -> list[int]:
        """Return waiting runs whose time has come."""
        statement = """SELECT id FROM runs WHERE state = 2 AND due_at IS NOT NULL AND due_at <= %(before)s
            ORDER BY due_at LIMIT %(limit)s"""
        return [row[0] for row in self._ask(statement, before=before, limit=limit)]

    def next_due(self) -> int | None:
        """Return the least due time of a waiting run."""
        rows = self._ask("SELECT due_at FROM runs WHERE state = 2 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1")
        return int(rows[0][0]) if rows else None

    def sweep_blobs(self, *, before: int, limit: int) -> int:
        """Remove blobs nobody names."""
        old = self._errands.listed(self.now() - before)
        if old:
            self._tell(_NO_ROW_YET, digests=ByteaArray(old))
        here = len(self._ask(_SWEEP_INSIDE, before=before, limit=limit))
        if not self._errands.outside:
            return here
        leaving = [row[0] for row in self._ask(_SWEEP_OUTSIDE, before=before, limit=limit)]
        self._errands.leave(leaving)
        return here + len(leaving)

    def get_meta(self, key: str) -> str | None:
        """Return a fact."""
        rows = self._ask("SELECT value FROM meta WHERE key = %(key)s", key=key)
        return str(rows[0][0]) if rows else None

    def put_meta(self, key: str, value: str) -> None:
        """Write a fact."""
        texts.check((key, value), "a fact")
        self._tell(
            """INSERT INTO meta (key, value) VALUES (%(key)s, %(value)s)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value""",
            key=key,
            value=value,
        )
