"""Verbs on SQLite: streams and views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.stream import PartKind, PartRow, StreamRow
from torpor.store.rows import ViewRow
from torpor.store.sqlite.begun import Begun

if TYPE_CHECKING:
    from collections.abc import Sequence


class StreamVerbs(Begun):
    """Streams, their parts, views."""

    def streams(self, ids: Sequence[int], *, lock: bool = False) -> dict[int, StreamRow]:
        """Return streams; the one writer of SQLite needs no row locks."""
        del lock
        rows = self._many("SELECT run_id, n, epoch, loose FROM streams WHERE run_id IN", ids)
        return {row[0]: StreamRow(*row) for row in rows}

    def put_streams(self, rows: Sequence[StreamRow]) -> None:
        """Write streams."""
        self._db.executemany("INSERT OR REPLACE INTO streams (run_id, n, epoch, loose) VALUES (?, ?, ?, ?)", rows)

    def add_parts(self, parts: Sequence[tuple[int, PartRow]]) -> None:
        """Add parts."""
        now = self.now()
        self._db.executemany(
            "INSERT INTO parts (run_id, n, at, kind, body) VALUES (?, ?, ?, ?, ?)",
            [(run_id, part.n, now, part.kind, part.body) for run_id, part in parts],
        )

    def parts(self, run: int, *, after: int, limit: int) -> list[PartRow]:
        """Return parts after a number."""
        rows = self._db.execute(
            "SELECT n, at, kind, body FROM parts WHERE run_id = ? AND n > ? ORDER BY n LIMIT ?", (run, after, limit)
        )
        return [PartRow(n, at, PartKind(kind), body) for n, at, kind, body in rows]

    def put_views(self, views: Sequence[tuple[int, bytes]]) -> None:
        """Overwrite views."""
        now = self.now()
        self._db.executemany(
            "INSERT OR REPLACE INTO views (run_id, at, body) VALUES (?, ?, ?)",
            [(run_id, now, body) for run_id, body in views],
        )

    def views(self, ids: Sequence[int]) -> dict[int, ViewRow]:
        """Return views."""
        return {row[0]: ViewRow(*row) for row in self._many("SELECT run_id, at, body FROM views WHERE run_id IN", ids)}
