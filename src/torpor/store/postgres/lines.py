"""Verbs on PostgreSQL: lines, deadlines, cancels, traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.run import Flag
from torpor.store import texts
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.rows import CompensationRow, InLine, LineRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.store.rows import PlaceRow

_OPEN = """INSERT INTO lines (name, places)
    SELECT * FROM unnest(%(names)s::text[], %(places)s::int[]) AS w(name, places) ORDER BY name
    ON CONFLICT (name) DO UPDATE SET places = excluded.places,
    stirred = CASE WHEN excluded.places > lines.places THEN 1 ELSE lines.stirred END"""
_COUNTED = """SELECT l.id, l.name, l.places, (SELECT count(*) FROM places p WHERE p.line = l.id AND p.held = 1),
    EXISTS (SELECT 1 FROM places p WHERE p.line = l.id AND p.held = 0) FROM lines l WHERE l.id = ANY(%(ids)s::int[])"""
_STIR = """WITH l AS MATERIALIZED (SELECT id FROM lines WHERE id IN (
    SELECT line FROM places WHERE run_id = ANY(%(ids)s::bigint[])) ORDER BY id FOR UPDATE)
    UPDATE lines SET stirred = 1 FROM l WHERE lines.id = l.id"""
_PUT = """INSERT INTO places (run_id, line, prio, held) SELECT * FROM unnest(%(runs)s::bigint[], %(lines)s::int[],
    %(prios)s::smallint[], %(helds)s::smallint[])"""
_QUEUE = f"""UPDATE runs SET state = 2, due_at = NULL, flags = flags | {int(Flag.LINE | Flag.QUEUED)}
    WHERE id = ANY(%(ids)s::bigint[])"""
_IN_LINE = """SELECT p.run_id, l.name, l.places, p.held, CASE WHEN p.held <> 0 THEN 0 ELSE (SELECT count(*) FROM (
    SELECT 1 FROM places a WHERE a.line = p.line AND a.held = 1
    UNION ALL SELECT 1 FROM places a WHERE a.line = p.line AND a.held = 0 AND (a.prio, a.run_id) < (p.prio, p.run_id)
    LIMIT %(most)s) ahead) END
    FROM places p JOIN lines l ON l.id = p.line WHERE p.run_id = ANY(%(ids)s::bigint[])"""
_PUT_DEADLINES = """INSERT INTO deadlines (run_id, due_at) SELECT * FROM unnest(%(runs)s::bigint[], %(dues)s::bigint[])
    AS d(run_id, due_at) ORDER BY run_id ON CONFLICT DO NOTHING"""
_PUT_CANCELS = """INSERT INTO cancels (run_id, at, reason) SELECT run_id, %(now)s, reason
    FROM unnest(%(runs)s::bigint[], %(reasons)s::text[]) AS c(run_id, reason) ORDER BY run_id ON CONFLICT DO NOTHING"""
_PUT_TRACES = """INSERT INTO traces (run_id, parent) SELECT * FROM unnest(%(runs)s::bigint[], %(parents)s::text[])
    AS t(run_id, parent) ORDER BY run_id ON CONFLICT DO NOTHING"""
_ADD = """INSERT INTO compensations (run_id, n, ref, body)
    SELECT * FROM unnest(%(runs)s::bigint[], %(ns)s::int[], %(refs)s::text[], %(bodies)s::bytea[])"""
_DROP = """DELETE FROM compensations c USING unnest(%(runs)s::bigint[], %(refs)s::text[]) AS d(run_id, ref)
    WHERE c.run_id = d.run_id AND c.ref = d.ref"""


class LineVerbs(Begun):
    """Lines, places, deadlines, cancels, traces."""

    def open_lines(self, wanted: Mapping[str, int]) -> dict[str, LineRow]:
        """Return lines, locked, written if they are not there."""
        texts.check(wanted, "a line's name")
        self._tell(_OPEN, names=TextArray(list(wanted)), places=longs(wanted.values()))
        rows = self._ask(
            "SELECT id FROM lines WHERE name = ANY(%(names)s::text[]) ORDER BY id FOR UPDATE",
            names=TextArray(list(wanted)),
        )
        return {line.name: line for line in self._counted([row[0] for row in rows])}

    def lock_line(self, line: int) -> LineRow:
        """Return a line, locked."""
        self._ask("SELECT id FROM lines WHERE id = %(line)s FOR UPDATE", line=line)
        return self._counted([line])[0]

    def _counted(self, ids: Sequence[int]) -> list[LineRow]:
        """Return lines with what is known of their places: asked after the lock, so that nothing is missed."""
        return [LineRow(*row) for row in self._ask(_COUNTED, ids=longs(ids))]

    def put_places(self, places: Sequence[PlaceRow]) -> None:
        """Write places."""
        self._tell(
            _PUT,
            runs=longs([place.run_id for place in places]),
            lines=longs([place.line for place in places]),
            prios=longs([place.prio for place in places]),
            helds=longs([place.held for place in places]),
        )
        waiting = [place.run_id for place in places if place.held == 0]
        if waiting:
            self._tell(_STIR, ids=longs(waiting))

    def queue_runs(self, ids: Sequence[int]) -> None:
        """Put runs to sleep without a moment."""
        self._tell(_QUEUE, ids=longs(ids))

    def arrive(self, ids: Sequence[int]) -> None:
        """Let runs wait for a place."""
        self._tell("UPDATE places SET held = 0 WHERE run_id = ANY(%(ids)s::bigint[])", ids=longs(ids))
        self._tell(_STIR, ids=longs(ids))

    def hold_places(self, ids: Sequence[int]) -> None:
        """Give places."""
        self._tell("UPDATE places SET held = 1 WHERE run_id = ANY(%(ids)s::bigint[])", ids=longs(ids))

    def leave_lines(self, ids: Sequence[int]) -> None:
        """Take runs out of their lines."""
        self._tell(_STIR, ids=longs(ids))
        self._tell("DELETE FROM places WHERE run_id = ANY(%(ids)s::bigint[])", ids=longs(ids))

    def stirred_lines(self, *, limit: int) -> list[int]:
        """Return stirred lines."""
        rows = self._ask("SELECT id FROM lines WHERE stirred = 1 ORDER BY id LIMIT %(limit)s", limit=limit)
        return [row[0] for row in rows]

    def calm_line(self, line: int) -> None:
        """Say that nobody can get a place."""
        self._tell("UPDATE lines SET stirred = 0 WHERE id = %(line)s", line=line)

    def queue(self, line: int, *, limit: int) -> list[int]:
        """Return who waits."""
        statement = """SELECT run_id FROM places WHERE line = %(line)s AND held = 0
            ORDER BY prio, run_id LIMIT %(limit)s"""
        return [row[0] for row in self._ask(statement, line=line, limit=limit)]

    def in_line(self, ids: Sequence[int], *, most: int) -> dict[int, InLine]:
        """Return where runs stand."""
        rows = self._ask(_IN_LINE, ids=longs(ids), most=most)
        return {run_id: InLine(name, places, held == 1, ahead) for run_id, name, places, held, ahead in rows}

    def put_deadlines(self, deadlines: Sequence[tuple[int, int]]) -> None:
        """Write deadlines."""
        self._tell(_PUT_DEADLINES, runs=longs([d[0] for d in deadlines]), dues=longs([d[1] for d in deadlines]))

    def due_deadlines(self, *, before: int, limit: int) -> list[int]:
        """Return runs whose deadline has passed."""
        statement = "SELECT run_id FROM deadlines WHERE due_at <= %(before)s ORDER BY due_at LIMIT %(limit)s"
        return [row[0] for row in self._ask(statement, before=before, limit=limit)]

    def next_deadline(self) -> int | None:
        """Return the earliest deadline."""
        rows = self._ask("SELECT due_at FROM deadlines ORDER BY due_at LIMIT 1")
        return int(rows[0][0]) if rows else None

    def deadlines(self, ids: Sequence[int]) -> dict[int, int]:
        """Return deadlines."""
        statement = "SELECT run_id, due_at FROM deadlines WHERE run_id = ANY(%(ids)s::bigint[])"
        return {row[0]: row[1] for row in self._ask(statement, ids=longs(ids))}

    def drop_deadlines(self, ids: Sequence[int]) -> None:
        """Remove deadlines."""
        self._tell("DELETE FROM deadlines WHERE run_id = ANY(%(ids)s::bigint[])", ids=longs(ids))

    # cancels

    def put_cancels(self, reasons: Sequence[tuple[int, str]]) -> None:
        """Write reasons."""
        texts.check((reason for _, reason in reasons), "a reason")
        runs, said = [reason[0] for reason in reasons], [reason[1] for reason in reasons]
        self._tell(_PUT_CANCELS, now=self.now(), runs=longs(runs), reasons=TextArray(said))

    def cancels(self, ids: Sequence[int]) -> dict[int, str]:
        """Return reasons."""
        statement = "SELECT run_id, reason FROM cancels WHERE run_id = ANY(%(ids)s::bigint[])"
        return {row[0]: row[1] for row in self._ask(statement, ids=longs(ids))}

    def put_traces(self, parents: Sequence[tuple[int, str]]) -> None:
        """Write traceparents."""
        texts.check((parent for _, parent in parents), "a traceparent")
        runs, said = [parent[0] for parent in parents], [parent[1] for parent in parents]
        self._tell(_PUT_TRACES, runs=longs(runs), parents=TextArray(said))

    def traces(self, ids: Sequence[int]) -> dict[int, str]:
        """Return traceparents."""
        statement = "SELECT run_id, parent FROM traces WHERE run_id = ANY(%(ids)s::bigint[])"
        return {row[0]: row[1] for row in self._ask(statement, ids=longs(ids))}

    def add_compensations(self, rows: Sequence[CompensationRow]) -> None:
        """Write compensations."""
        texts.check((row.ref for row in rows), "the name of a compensation")
        self._tell(
            _ADD,
            runs=longs([row.run_id for row in rows]),
            ns=longs([row.n for row in rows]),
            refs=TextArray([row.ref for row in rows]),
            bodies=ByteaArray([row.body for row in rows]),
        )

    def drop_compensations(self, refs: Sequence[tuple[int, str]]) -> None:
        """Remove compensations."""
        self._tell(_DROP, runs=longs([ref[0] for ref in refs]), refs=TextArray([ref[1] for ref in refs]))

    def compensations(self, run: int) -> list[CompensationRow]:
        """Return compensations."""
        statement = "SELECT run_id, n, ref, body FROM compensations WHERE run_id = %(run)s ORDER BY n"
        return [CompensationRow(*row) for row in self._ask(statement, run=run)]
