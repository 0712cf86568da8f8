"""Verbs on SQLite: checkpoints that can be returned to, and copies of runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torpor.core.checkpoint import EMPTIED_AT_ONCE
from torpor.store import texts
from torpor.store.history_rows import ForkRow
from torpor.store.sqlite.begun import Begun
from torpor.store.sqlite.hot import entry_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.journal import Stored
    from torpor.store.history_rows import Emptying

# Not an UPDATE: that would leave a hole in a page that is never written to again, as entries are appended at the end. What
# is emptied moves there as well, so whole pages become free and are used again.
EMPTIED = """INSERT OR REPLACE INTO journal (run_id, seq, at, epoch, kind, key, body)
    SELECT run_id, seq, at, epoch, kind, key, NULL FROM journal WHERE run_id = ?1"""
_OLD_WHOLE = """SELECT seq FROM journal INDEXED BY journal_whole
    WHERE run_id = ?1 AND kind = 3 AND body IS NOT NULL AND seq > 0 ORDER BY seq DESC LIMIT -1 OFFSET ?2"""
_OLD = f"""SELECT seq FROM journal WHERE run_id = ?1 AND kind = 3 AND seq > 0
    ORDER BY seq DESC LIMIT {EMPTIED_AT_ONCE} OFFSET ?2"""
_EMPTY = f"{EMPTIED} AND seq IN ({_OLD_WHOLE})"
_EMPTY_TURNS = f"""WITH old AS (SELECT min(seq) AS first, max(seq) AS last FROM ({{old}})) {EMPTIED}
    AND seq <= (SELECT last FROM old) AND seq > ifnull((SELECT p.seq FROM journal p WHERE p.run_id = ?1 AND p.kind = 3
        AND p.seq < (SELECT first FROM old) ORDER BY p.seq DESC LIMIT 1), 0)
    AND body IS NOT NULL AND (kind = 3 OR kind = 2 AND key GLOB '[se]:*@*' AND key NOT GLOB '*[#/]*')"""
"""The last line is `core.checkpoint.told_in_rows`."""
_CUT = "WHERE c.run_id = ?1 AND c.branch >= ?2"
_WAS = f"""SELECT c.field, c.n, c.body, min(c.branch) FROM cut_rows c {_CUT} AND c.field = ?3 AND c.n >= ?4 AND c.n < ?5
    GROUP BY c.field, c.n"""
_KEPT = f"""SELECT field, n, body FROM rows r WHERE run_id = ?1 AND field = ?3 AND n >= ?4 AND n < ?5
    AND NOT EXISTS (SELECT 1 FROM cut_rows c {_CUT} AND c.field = r.field AND c.n = r.n)"""
NAMED = " UNION ALL ".join(
    f"SELECT substr({column}, 2) FROM {table} WHERE run_id = ?1 AND substr({column}, 1, 1) = x'00'"
    for table, column in (
        *(("states", "body"), ("journal", "body"), ("rows", "body"), ("cut_rows", "body")),
        *(("inbox", "body"), ("waits", "answer"), ("outbox", "body"), ("parts", "body"), ("views", "body")),
        *(("compensations", "body"), ("replies", "body")),
    )
)


class HistoryVerbs(Begun):
    """Checkpoints and branches."""

    def keep_inputs(self, inputs: Sequence[tuple[int, str]]) -> None:
        """Keep inputs as entries 0."""
        self._db.executemany(
            "INSERT INTO journal (run_id, seq, at, epoch, kind, key, body)"
            " SELECT run_id, 0, at, 0, 3, ?2, body FROM states WHERE run_id = ?1 AND seq = 0 ON CONFLICT DO NOTHING",
            inputs,
        )

    def empty_checkpoints(self, kept: Sequence[Emptying]) -> None:
        """Empty what is older."""
        for run_id, whole, outcomes in kept:
            turns = _EMPTY_TURNS.format(old=_OLD_WHOLE if whole > 1 else _OLD)
            self._db.execute(turns if outcomes else _EMPTY, (run_id, whole))

    def whole_checkpoints(self, run: int, *, limit: int) -> list[Stored]:
        """Return the newest whole checkpoints."""
        rows = self._db.execute(
            "SELECT seq, at, epoch, kind, key, NULL FROM journal INDEXED BY journal_whole"
            " WHERE run_id = ? AND kind = 3 AND body IS NOT NULL ORDER BY seq DESC LIMIT ?",
            (run, limit),
        )
        return [entry_row(row) for row in rows]

    def add_entries(self, run: int, entries: Sequence[Stored]) -> None:
        """Append entries."""
        self._db.executemany(
            "INSERT INTO journal (run_id, seq, at, epoch, kind, key, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(run, *entry) for entry in entries],
        )

    def put_fork(self, fork: ForkRow) -> None:
        """Write where a run came from."""
        texts.check((fork.made_by, fork.title), "a fork's title or author")
        self._db.execute("INSERT INTO forks (run_id, source, seq, at, made_by, title) VALUES (?, ?, ?, ?, ?, ?)", fork)

    def forks(self, ids: Sequence[int]) -> dict[int, ForkRow]:
        """Return where runs came from."""
        rows = self._many("SELECT run_id, source, seq, at, made_by, title FROM forks WHERE run_id IN", ids)
        return {row[0]: ForkRow(*row) for row in rows}

    def forks_of(self, run: int, *, limit: int) -> list[int]:
        """Return the newest forks of a run."""
        rows = self._db.execute("SELECT run_id FROM forks WHERE source = ? ORDER BY run_id DESC LIMIT ?", (run, limit))
        return [row[0] for row in rows]

    def copy_rows(self, run: int, target: int, branch: int, counts: Mapping[str, int]) -> None:
        """Copy rows as they were on a branch."""
        for field, count in counts.items():
            self._db.execute(
                f"INSERT INTO rows (run_id, field, n, body) SELECT ?6, field, n, body FROM ({_KEPT})"
                f" UNION ALL SELECT ?6, field, n, body FROM ({_WAS})",
                (run, branch, field, 0, count, target),
            )

    def first_cut(self, run: int, branch: int) -> dict[str, int]:
        """Return the first cut number of each field."""
        rows = self._db.execute(f"SELECT field, min(n) FROM cut_rows c {_CUT} GROUP BY field", (run, branch))
        return dict(rows.fetchall())

    def cut_rows(self, run: int, branch: int, counts: Mapping[str, int]) -> None:
        """Take rows out of sight."""
        beyond = "n >= coalesce((SELECT value FROM json_each(?2) WHERE key = field), 0)"
        given = (run, json.dumps(dict(counts)))
        self._db.execute(
            f"INSERT INTO cut_rows (run_id, field, n, branch, body) SELECT run_id, field, n, ?3, body FROM rows"
            f" WHERE run_id = ?1 AND {beyond}",
            (*given, branch),
        )
        self._db.execute(f"DELETE FROM rows WHERE run_id = ?1 AND {beyond}", given)

    def bring_back(self, run: int, branch: int, field: str, first: int, count: int) -> None:
        """Put rows back."""
        self._db.execute(
            f"INSERT INTO rows (run_id, field, n, body) SELECT ?1, field, n, body FROM ({_WAS})",
            (run, branch, field, first, count),
        )

    def drop_cut(self, run: int, below: int) -> None:
        """Forget what was cut long ago."""
        self._db.execute("DELETE FROM cut_rows WHERE run_id = ? AND branch < ?", (run, below))

    def name_all(self, run: int) -> None:
        """Name blobs."""
        self._db.execute(
            f"INSERT INTO blob_runs (digest, run_id) SELECT DISTINCT named.d, ?1 FROM"
            f" (SELECT NULL AS d WHERE 0 UNION ALL {NAMED}) named WHERE true ON CONFLICT DO NOTHING",
            (run,),
        )
