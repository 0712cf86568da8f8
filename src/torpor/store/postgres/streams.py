"""Verbs on PostgreSQL: streams and views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.stream import PartKind, PartRow, StreamRow
from torpor.store.postgres import hot
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.rows import ViewRow

if TYPE_CHECKING:
    from collections.abc import Sequence

_PUT_STREAMS = """INSERT INTO streams (run_id, n, epoch, loose)
    SELECT * FROM unnest(%(runs)s::bigint[], %(ns)s::int[], %(epochs)s::int[], %(looses)s::text[]) ORDER BY 1
    ON CONFLICT (run_id) DO UPDATE SET n = excluded.n, epoch = excluded.epoch, loose = excluded.loose"""
_ADD_PARTS = f"""WITH {hot.MOMENT} INSERT INTO parts (run_id, at, n, kind, body)
    SELECT p.run_id, now, p.n, p.kind, p.body FROM moment, unnest(%(runs)s::bigint[], %(ns)s::int[],
    %(kinds)s::smallint[], %(bodies)s::bytea[]) AS p(run_id, n, kind, body)"""
_PUT_VIEWS = f"""WITH {hot.MOMENT} INSERT INTO views (run_id, at, body)
    SELECT v.run_id, now, v.body FROM moment, unnest(%(runs)s::bigint[], %(bodies)s::bytea[]) AS v(run_id, body)
    ORDER BY 1 ON CONFLICT (run_id) DO UPDATE SET at = excluded.at, body = excluded.body"""


class StreamVerbs(Begun):
    """Streams, their parts, views."""

    def streams(self, ids: Sequence[int], *, lock: bool = False) -> dict[int, StreamRow]:
        """Return streams; locked in order of the run's number."""
        how = "FOR UPDATE" if lock else ""
        statement = (
            f"SELECT run_id, n, epoch, loose FROM streams WHERE run_id = ANY(%(ids)s::bigint[]) ORDER BY 1 {how}"
        )
        return {row[0]: StreamRow(*row) for row in self._ask(statement, ids=longs(ids))}

    def put_streams(self, rows: Sequence[StreamRow]) -> None:
        """Write streams, in order."""
        self._tell(
            _PUT_STREAMS,
            runs=longs([row.run_id for row in rows]),
            ns=longs([row.n for row in rows]),
            epochs=longs([row.epoch for row in rows]),
            looses=TextArray([row.loose for row in rows]),
        )

    def add_parts(self, parts: Sequence[tuple[int, PartRow]]) -> None:
        """Add parts."""
        self._tell(
            _ADD_PARTS,
            now=self._now,
            runs=longs([run_id for run_id, _ in parts]),
            ns=longs([part.n for _, part in parts]),
            kinds=longs([part.kind for _, part in parts]),
            bodies=ByteaArray([part.body for _, part in parts]),
        )

    def parts(self, run: int, *, after: int, limit: int) -> list[PartRow]:
        """Return parts after a number."""
        rows = self._ask(
            "SELECT n, at, kind, body FROM parts WHERE run_id = %(run)s AND n > %(after)s ORDER BY n LIMIT %(limit)s",
            run=run,
            after=after,
            limit=limit,
        )
        return [PartRow(n, at, PartKind(kind), body) for n, at, kind, body in rows]

    def put_views(self, views: Sequence[tuple[int, bytes]]) -> None:
        """Overwrite views, in order."""
        self._tell(
            _PUT_VIEWS,
            now=self._now,
            runs=longs([run_id for run_id, _ in views]),
            bodies=ByteaArray([body for _, body in views]),
        )

    def views(self, ids: Sequence[int]) -> dict[int, ViewRow]:
        """Return views."""
        statement = "SELECT run_id, at, body FROM views WHERE run_id = ANY(%(ids)s::bigint[])"
        return {row[0]: ViewRow(*row) for row in self._ask(statement, ids=longs(ids))}
