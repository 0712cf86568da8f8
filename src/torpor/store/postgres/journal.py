"""Verbs on PostgreSQL: the journal, and what travels in a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.store import texts
from torpor.store.outside import LEAVING, MARK
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.postgres.hot import ENTRY_COLUMNS, entry_row
from torpor.store.rows import StateRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import Blob, NewMessage, NewRow
    from torpor.core.journal import Stored

MARK_HEX, LEAVING_HEX = (f"'\\x{mark.hex()}'::bytea" for mark in (MARK, LEAVING))
_PUT_STATES = """UPDATE states s SET seq = b.seq, at = b.at, turn = b.turn, body = b.body
    FROM (SELECT * FROM unnest(%(runs)s::bigint[], %(seqs)s::int[], %(ats)s::bigint[], %(turns)s::int[],
    %(bodies)s::bytea[]) AS b(run_id, seq, at, turn, body)) b WHERE s.run_id = b.run_id"""
_ADD_ROWS = """INSERT INTO rows (run_id, field, n, body)
    SELECT * FROM unnest(%(runs)s::bigint[], %(fields)s::text[], %(ns)s::int[], %(bodies)s::bytea[])"""
_ADD_MESSAGES = """INSERT INTO outbox (run_id, target, name, key, body, kind, detail)
    SELECT run_id, target, name, key, body, kind, detail FROM unnest(%(runs)s::bigint[], %(targets)s::bigint[],
    %(names)s::text[], %(keys)s::text[], %(bodies)s::bytea[], %(kinds)s::smallint[], %(details)s::text[])
    WITH ORDINALITY AS m(run_id, target, name, key, body, kind, detail, n) ORDER BY m.n"""
_PUT_BLOBS = """WITH named AS (INSERT INTO blob_runs (digest, run_id) SELECT DISTINCT digest, run_id
        FROM unnest(%(digests)s::bytea[], %(runs)s::bigint[]) AS n(digest, run_id) ORDER BY 1, 2 ON CONFLICT DO NOTHING)
    INSERT INTO blobs (digest, at, body) SELECT DISTINCT ON (digest) digest, %(now)s, body
    FROM unnest(%(digests)s::bytea[], %(bodies)s::bytea[]) AS b(digest, body) ORDER BY digest
    ON CONFLICT (digest) DO UPDATE SET at = excluded.at, body = CASE WHEN {away} THEN excluded.body ELSE blobs.body END"""
# `at`, so that a sweep that looked before sees it under its lock. A row that says where the content lies is written anew.
_PUT_INSIDE = _PUT_BLOBS.format(away=f"substring(blobs.body FOR 1) IN ({MARK_HEX}, {LEAVING_HEX})")
_PUT_OUTSIDE = (
    _PUT_BLOBS.format(away=f"substring(blobs.body FOR 1) = {MARK_HEX}")
    + f" RETURNING digest, substring(body FOR 1) = {LEAVING_HEX}"
)
_KEEP_INSIDE = """UPDATE blobs b SET body = k.body FROM unnest(%(digests)s::bytea[], %(bodies)s::bytea[]) AS k(digest, body)
    WHERE b.digest = k.digest"""
_DROP_LEAVING = f"""DELETE FROM blobs b WHERE digest = ANY(%(digests)s::bytea[]) AND substring(body FOR 1) = {LEAVING_HEX}
    AND NOT EXISTS (SELECT 1 FROM blob_runs n WHERE n.digest = b.digest)"""
_ENTRIES = f"""SELECT p.run, {ENTRY_COLUMNS} FROM unnest(%(runs)s::bigint[], %(seqs)s::int[]) AS p(run, place)
    JOIN journal ON run_id = p.run AND seq = p.place"""
_OPEN_INTENTS = """SELECT s.run_id, i.seq, i.at, i.epoch, i.kind, i.key, i.body FROM states s, LATERAL (
        SELECT * FROM journal j WHERE j.run_id = s.run_id AND j.seq > s.seq AND j.kind = 1 ORDER BY j.seq OFFSET 0) i
    WHERE s.run_id = ANY(%(ids)s::bigint[]) AND NOT EXISTS (SELECT 1 FROM journal o
        WHERE o.run_id = i.run_id AND o.seq > i.seq AND o.key = i.key AND o.kind IN (2, 7) OFFSET 0)
    ORDER BY s.run_id, i.seq"""


class JournalVerbs(Begun):
    """The journal, checkpoints, appended rows, messages, blobs."""

    def put_states(self, states: Sequence[StateRow]) -> None:
        """Overwrite checkpoints."""
        self._tell(
            _PUT_STATES,
            runs=longs([row.run_id for row in states]),
            seqs=longs([row.seq for row in states]),
            ats=longs([row.at for row in states]),
            turns=longs([row.turn for row in states]),
            bodies=ByteaArray([row.body for row in states]),
        )

    def states(self, ids: Sequence[int]) -> dict[int, StateRow]:
        """Return current checkpoints."""
        rows = self._ask(
            "SELECT run_id, seq, at, turn, body FROM states WHERE run_id = ANY(%(i)s::bigint[])", i=longs(ids)
        )
        return {row[0]: StateRow(*row) for row in rows}

    def add_rows(self, rows: Sequence[tuple[int, NewRow]]) -> None:
        """Append elements of `Rows` fields."""
        fields = [row.field for _, row in rows]
        texts.check(fields, "a field's name")
        self._tell(
            _ADD_ROWS,
            runs=longs([run_id for run_id, _ in rows]),
            fields=TextArray(fields),
            ns=longs([row.n for _, row in rows]),
            bodies=ByteaArray([row.body for _, row in rows]),
        )

    def get_rows(self, run: int, field: str, *, after: int, limit: int) -> list[bytes]:
        """Return elements of a `Rows` field."""
        statement = """SELECT body FROM rows WHERE run_id = %(run)s AND field = %(field)s AND n >= %(after)s
            ORDER BY n LIMIT %(limit)s"""
        return [row[0] for row in self._ask(statement, run=run, field=field, after=after, limit=limit)]

    def add_messages(self, messages: Sequence[tuple[int, NewMessage]]) -> None:
        """Put messages into the outbox."""
        names, keys, details = ([getattr(m, part) for _, m in messages] for part in ("name", "key", "detail"))
        texts.check((*names, *keys, *details), "a message's name or key")
        self._tell(
            _ADD_MESSAGES,
            runs=longs([run_id for run_id, _ in messages]),
            targets=longs([m.target for _, m in messages]),
            names=TextArray(names),
            keys=TextArray(keys),
            bodies=ByteaArray([m.body for _, m in messages]),
            kinds=longs([m.kind for _, m in messages]),
            details=TextArray(details),
        )

    def put_blobs(self, blobs: Sequence[tuple[int, Blob]]) -> None:
        """Write packed blobs, and who names them."""
        params = {
            "now": self.now(),
            "digests": ByteaArray([blob.digest for _, blob in blobs]),
            "runs": longs([run_id for run_id, _ in blobs]),
            "bodies": ByteaArray(self._errands.rows(blobs)),
        }
        if self._errands.inside:
            self._tell(_PUT_INSIDE, **params)
            return
        leaving = {digest for digest, is_leaving in self._ask(_PUT_OUTSIDE, **params) if is_leaving}
        kept = {blob.digest: blob.body for _, blob in blobs if blob.digest in leaving}
        if kept:
            self._tell(_KEEP_INSIDE, digests=ByteaArray(list(kept)), bodies=ByteaArray(list(kept.values())))

    def get_blobs(self, digests: Sequence[bytes], *, later: bool = False) -> dict[bytes, bytes]:
        """Return packed blobs."""
        rows = self._ask("SELECT digest, body FROM blobs WHERE digest = ANY(%(d)s::bytea[])", d=ByteaArray(digests))
        return self._errands.contents(dict(rows), later=later)

    def drop_leaving(self, digests: Sequence[bytes]) -> None:
        """Forget blobs that were deleted outside."""
        self._tell(_DROP_LEAVING, digests=ByteaArray(digests))

    def journal(self, run: int, *, after: int = 0, limit: int = 10_000) -> list[Stored]:
        """Return entries above `after`."""
        statement = f"""SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = %(run)s AND seq > %(after)s
            ORDER BY seq LIMIT %(limit)s"""
        return [entry_row(row) for row in self._ask(statement, run=run, after=after, limit=limit)]

    def journal_tail(self, run: int, *, limit: int) -> list[Stored]:
        """Return the newest entries."""
        statement = f"""SELECT {ENTRY_COLUMNS} FROM journal WHERE run_id = %(run)s AND seq > 0
            ORDER BY seq DESC LIMIT %(limit)s"""
        return [entry_row(row) for row in reversed(self._ask(statement, run=run, limit=limit))]

    def entries(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Stored]:
        """Return entries by place."""
        rows = self._ask(
            _ENTRIES, runs=longs([place[0] for place in places]), seqs=longs([place[1] for place in places])
        )
        return {(row[0], row[1]): entry_row(row[1:]) for row in rows}

    def open_intents(self, ids: Sequence[int]) -> dict[int, list[Stored]]:
        """Return intents without outcome."""
        found: dict[int, list[Stored]] = {}
        for run_id, *rest in self._ask(_OPEN_INTENTS, ids=longs(ids)):
            found.setdefault(run_id, []).append(entry_row(rest))
        return found
