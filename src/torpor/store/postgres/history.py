"""Verbs on PostgreSQL: checkpoints that can be returned to, and copies of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.checkpoint import EMPTIED_AT_ONCE
from torpor.store import texts
from torpor.store.history_rows import ForkRow
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.postgres.hot import entry_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.journal import Stored
    from torpor.store.history_rows import Emptying

_KEEP_INPUTS = """INSERT INTO journal (run_id, seq, at, epoch, kind, key, body)
    SELECT i.run_id, 0, s.at, 0, 3, i.key, s.body FROM unnest(%(runs)s::bigint[], %(keys)s::text[]) AS i(run_id, key),
    LATERAL (SELECT * FROM states s WHERE s.run_id = i.run_id AND s.seq = 0 OFFSET 0) s ON CONFLICT DO NOTHING"""
_EMPTY = """UPDATE journal SET body = NULL WHERE ctid = ANY(ARRAY(
    SELECT w.ctid FROM unnest(%(runs)s::bigint[], %(keeps)s::int[]) AS k(run_id, keep), LATERAL (
        SELECT j.ctid FROM journal j WHERE j.run_id = k.run_id AND j.kind = 3 AND j.body IS NOT NULL AND j.seq > 0
        ORDER BY j.seq DESC OFFSET k.keep) w))"""
_OLD_WHOLE = """SELECT j.seq FROM journal j WHERE j.run_id = k.run_id AND j.kind = 3 AND j.body IS NOT NULL AND j.seq > 0
    ORDER BY j.seq DESC OFFSET k.keep"""
_OLD = f"""SELECT j.seq FROM journal j WHERE j.run_id = k.run_id AND j.kind = 3 AND j.seq > 0
    ORDER BY j.seq DESC LIMIT {EMPTIED_AT_ONCE} OFFSET k.keep"""
_EMPTY_TURNS = """UPDATE journal SET body = NULL WHERE ctid = ANY(ARRAY(
    SELECT w.ctid FROM (SELECT k.run_id, min(c.seq) AS first, max(c.seq) AS last
        FROM unnest(%(runs)s::bigint[], %(keeps)s::int[]) AS k(run_id, keep), LATERAL ({old}) c GROUP BY k.run_id) o,
    LATERAL (SELECT j.ctid FROM journal j WHERE j.run_id = o.run_id AND j.seq <= o.last AND j.seq > coalesce((
            SELECT p.seq FROM journal p WHERE p.run_id = o.run_id AND p.kind = 3 AND p.seq < o.first
            ORDER BY p.seq DESC LIMIT 1), 0)
        AND j.body IS NOT NULL AND (j.kind = 3 OR j.kind = 2 AND j.key ~ '^[se]:[^#/]*@[^#/]*$') OFFSET 0) w))"""
"""The last line is `core.checkpoint.told_in_rows`."""
_ADD_ENTRIES = """INSERT INTO journal (run_id, seq, at, epoch, kind, key, body)
    SELECT %(run)s, * FROM unnest(%(seqs)s::int[], %(ats)s::bigint[], %(epochs)s::int[], %(kinds)s::smallint[],
    %(keys)s::text[], %(bodies)s::bytea[])"""
_CUT = "c.run_id = %(run)s AND c.branch >= %(branch)s::int"
_SPAN = "n >= %(first)s::int AND {0}.n < %(count)s::int"
_WAS = f"""SELECT DISTINCT ON (c.n) c.field, c.n, c.body FROM cut_rows c WHERE {_CUT} AND c.field = %(field)s
    AND c.{_SPAN.format("c")} ORDER BY c.n, c.branch"""
_KEPT = f"""SELECT r.field, r.n, r.body FROM rows r WHERE r.run_id = %(run)s AND r.field = %(field)s
    AND r.{_SPAN.format("r")}
    AND NOT EXISTS (SELECT 1 FROM cut_rows c WHERE {_CUT} AND c.field = r.field AND c.n = r.n)"""
_COPY_ROWS = f"""INSERT INTO rows (run_id, field, n, body) SELECT %(target)s, field, n, body FROM ({_KEPT}) k
    UNION ALL SELECT %(target)s, field, n, body FROM ({_WAS}) w"""
_CUT_ROWS = """WITH kept AS MATERIALIZED (SELECT * FROM unnest(%(fields)s::text[], %(counts)s::int[]) AS k(field, n)),
    gone AS (DELETE FROM rows r WHERE r.run_id = %(run)s
        AND r.n >= coalesce((SELECT k.n FROM kept k WHERE k.field = r.field), 0) RETURNING r.*)
    INSERT INTO cut_rows (run_id, field, n, branch, body) SELECT run_id, field, n, %(branch)s, body FROM gone"""
NAMED = " UNION ALL ".join(
    f"SELECT substring({column} FROM 2) AS digest FROM {table}"
    f" WHERE run_id = %(run)s AND substring({column} FOR 1) = '\\x00'::bytea"
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
        self._tell(_KEEP_INPUTS, runs=longs([one[0] for one in inputs]), keys=TextArray([one[1] for one in inputs]))

    def empty_checkpoints(self, kept: Sequence[Emptying]) -> None:
        """Empty what is older."""
        for statement, some in (
            (_EMPTY, [one for one in kept if not one.outcomes]),
            (_EMPTY_TURNS.format(old=_OLD_WHOLE), [one for one in kept if one.outcomes and one.whole > 1]),
            (_EMPTY_TURNS.format(old=_OLD), [one for one in kept if one.outcomes and one.whole <= 1]),
        ):
            if some:
                self._tell(statement, runs=longs([e.run_id for e in some]), keeps=longs([e.whole for e in some]))

    def whole_checkpoints(self, run: int, *, limit: int) -> list[Stored]:
        """Return the newest whole checkpoints."""
        statement = """SELECT seq, at, epoch, kind, key, NULL::bytea FROM journal WHERE run_id = %(run)s AND kind = 3
            AND body IS NOT NULL ORDER BY seq DESC LIMIT %(limit)s"""
        return [entry_row(row) for row in self._ask(statement, run=run, limit=limit)]

    def add_entries(self, run: int, entries: Sequence[Stored]) -> None:
        """Append entries."""
        self._tell(
            _ADD_ENTRIES,
            run=run,
            seqs=longs([entry.seq for entry in entries]),
            ats=longs([entry.at for entry in entries]),
            epochs=longs([entry.epoch for entry in entries]),
            kinds=longs([entry.kind for entry in entries]),
            keys=TextArray([entry.key for entry in entries]),
            bodies=ByteaArray([entry.body for entry in entries]),
        )

    def put_fork(self, fork: ForkRow) -> None:
        """Write where a run came from."""
        texts.check((fork.made_by, fork.title), "a fork's title or author")
        self._tell(
            """INSERT INTO forks (run_id, source, seq, at, made_by, title)
            VALUES (%(run_id)s, %(source)s, %(seq)s, %(at)s, %(made_by)s, %(title)s)""",
            **fork._asdict(),
        )

    def forks(self, ids: Sequence[int]) -> dict[int, ForkRow]:
        """Return where runs came from."""
        statement = "SELECT run_id, source, seq, at, made_by, title FROM forks WHERE run_id = ANY(%(i)s::bigint[])"
        return {row[0]: ForkRow._make(row) for row in self._ask(statement, i=longs(ids))}

    def forks_of(self, run: int, *, limit: int) -> list[int]:
        """Return the newest forks of a run."""
        statement = "SELECT run_id FROM forks WHERE source = %(run)s ORDER BY run_id DESC LIMIT %(limit)s"
        return [row[0] for row in self._ask(statement, run=run, limit=limit)]

    def copy_rows(self, run: int, target: int, branch: int, counts: Mapping[str, int]) -> None:
        """Copy rows as they were on a branch."""
        for field, count in counts.items():
            self._tell(_COPY_ROWS, run=run, target=target, branch=branch, field=field, first=0, count=count)

    def first_cut(self, run: int, branch: int) -> dict[str, int]:
        """Return the first cut number of each field."""
        rows = self._ask(f"SELECT field, min(n) FROM cut_rows c WHERE {_CUT} GROUP BY field", run=run, branch=branch)
        return {row[0]: row[1] for row in rows}

    def cut_rows(self, run: int, branch: int, counts: Mapping[str, int]) -> None:
        """Take rows out of sight."""
        fields, kept = TextArray(list(counts)), longs(list(counts.values()))
        self._tell(_CUT_ROWS, run=run, branch=branch, fields=fields, counts=kept)

    def bring_back(self, run: int, branch: int, field: str, first: int, count: int) -> None:
        """Put rows back."""
        self._tell(
            f"INSERT INTO rows (run_id, field, n, body) SELECT %(run)s, field, n, body FROM ({_WAS}) w",
            run=run,
            branch=branch,
            field=field,
            first=first,
            count=count,
        )

    def drop_cut(self, run: int, below: int) -> None:
        """Forget what was cut long ago."""
        self._tell("DELETE FROM cut_rows WHERE run_id = %(run)s AND branch < %(below)s", run=run, below=below)

    def name_all(self, run: int) -> None:
        """Name blobs."""
        self._tell(
            f"""INSERT INTO blob_runs (digest, run_id) SELECT DISTINCT digest, %(run)s::bigint FROM ({NAMED}) n
            ORDER BY 1 ON CONFLICT DO NOTHING""",
            run=run,
        )
