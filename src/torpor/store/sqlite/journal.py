"""Verbs on SQLite: the journal, and what travels in a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.store import texts
from torpor.store.outside import LEAVING, MARK
from torpor.store.rows import StateRow
from torpor.store.sqlite import together
from torpor.store.sqlite.begun import Begun
from torpor.store.sqlite.hot import ENTRY_COLUMNS, entry_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import Blob, NewMessage, NewRow
    from torpor.core.journal import Stored

MARK_HEX, LEAVING_HEX = f"x'{MARK.hex()}'", f"x'{LEAVING.hex()}'"
UNNAMED = "NOT EXISTS (SELECT 1 FROM blob_runs n WHERE n.digest = {})"
# A row that says where the content lies is written anew; one that a sweep is about to empty gets the content itself.
_PUT_BLOB = f"""INSERT INTO blobs (digest, at, body) VALUES (?1, ?2, ?3) ON CONFLICT (digest) DO UPDATE SET at = ?2,
    body = CASE substr(body, 1, 1) WHEN {LEAVING_HEX} THEN ?4 ELSE ?3 END
    WHERE substr(body, 1, 1) IN ({MARK_HEX}, {LEAVING_HEX})"""

_PUT_STATES = """UPDATE states SET seq = v.column2, at = v.column3, turn = v.column4, body = v.column5
    FROM (VALUES (rows)) v WHERE run_id = v.column1"""


class JournalVerbs(Begun):
    """The journal, checkpoints, appended rows, messages, blobs."""

    def put_states(self, states: Sequence[StateRow]) -> None:
        """Overwrite checkpoints."""
        together.write(self._db, _PUT_STATES, states)

    def add_rows(self, rows: Sequence[tuple[int, NewRow]]) -> None:
        """Append elements of `Rows` fields."""
        texts.check((row.field for _, row in rows), "a field's name")
        together.write(self._db, together.adding("rows (run_id, field, n, body)"), [(r, *row) for r, row in rows])

    def get_rows(self, run: int, field: str, *, after: int, limit: int) -> list[bytes]:
        """Return elements of a `Rows` field."""
        rows = self._db.execute(
            "SELECT body FROM rows WHERE run_id = ? AND field = ? AND n >= ? ORDER BY n LIMIT ?",
            (run, field, after, limit),
        )
        return [row[0] for row in rows]

    def add_messages(self, messages: Sequence[tuple[int, NewMessage]]) -> None:
        """Put messages into the outbox."""
        texts.check((text for _, m in messages for text in (m.name, m.key, m.detail)), "a message's name or key")
        together.write(
            self._db,
            together.adding("outbox (run_id, target, name, key, body, kind, detail)"),
            [(r, *m[:4], int(m.kind), m.detail) for r, m in messages],
        )

    def put_blobs(self, blobs: Sequence[tuple[int, Blob]]) -> None:
        """Write packed blobs."""
        now, rows = self.now(), self._errands.rows(blobs)
        self._db.executemany(
            _PUT_BLOB, [(blob.digest, now, row, blob.body) for (_, blob), row in zip(blobs, rows, strict=True)]
        )
        self._db.executemany(
            "INSERT INTO blob_runs (digest, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [(blob.digest, run_id) for run_id, blob in blobs],
        )

    def get_blobs(self, digests: Sequence[bytes], *, later: bool = False) -> dict[bytes, bytes]:
        """Return packed blobs."""
        found: dict[bytes, bytes] = {}
        for digest in digests:
            row = self._db.execute("SELECT body FROM blobs WHERE digest = ?", (digest,)).fetchone()
            if row is not None:
                found[digest] = row[0]
        return self._errands.contents(found, later=later)

    def drop_leaving(self, digests: Sequence[bytes]) -> None:
        """Forget blobs that were deleted outside."""
        self._db.executemany(
            f"DELETE FROM blobs WHERE digest = ?1 AND substr(body, 1, 1) = {LEAVING_HEX} AND {UNNAMED.format('?1')}",
            [(digest,) for digest in digests],
        )

    def journal(self, run: int, *, after: int = 0, limit: int = 10_000) -> list[Stored]:
        """Return entries above `after`."""
        rows = self._db.execute(
            f"SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
            (run, after, limit),
        )
        return [entry_row(row) for row in rows]

    def journal_tail(self, run: int, *, limit: int) -> list[Stored]:
        """Return the newest entries."""
        rows = self._db.execute(
            f"SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = ? AND seq > 0 ORDER BY seq DESC LIMIT ?", (run, limit)
        ).fetchall()
        return [entry_row(row) for row in reversed(rows)]

    def entries(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Stored]:
        """Return entries by place."""
        found = {}
        for place in places:
            row = self._db.execute(
                f"SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = ? AND seq = ?", place
            ).fetchone()
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
