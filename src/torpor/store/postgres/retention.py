"""Verbs on PostgreSQL: how long things are kept, and their removal in bounded parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.store import texts
from torpor.store.history_rows import PruneRow, RetentionRow, old_end
from torpor.store.postgres.arrays import TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.postgres.history import NAMED
from torpor.store.tables import OF_A_RUN, ON_THEIR_WAY

if TYPE_CHECKING:
    from collections.abc import Sequence

_IDS = "ANY(%(ids)s::bigint[])"
_LONG = ("journal", "rows", "cut_rows", "parts", "inbox")
"""Tables in which one run can have very many rows."""
_LAYERS = "program, runs, journal, checkpoints, stream, slots"
_PUT = f"""INSERT INTO retention ({_LAYERS}) SELECT * FROM unnest(%(programs)s::text[], %(runs)s::bigint[],
    %(journals)s::bigint[], %(checkpoints)s::bigint[], %(streams)s::bigint[], %(slots)s::bigint[])
    ON CONFLICT (program) DO UPDATE SET runs = excluded.runs, journal = excluded.journal,
    checkpoints = excluded.checkpoints, stream = excluded.stream, slots = excluded.slots"""
_OLDEST_PARTS = """SELECT s.run_id, (SELECT p.at FROM parts p WHERE p.run_id = s.run_id ORDER BY p.n LIMIT 1)
    FROM (SELECT run_id FROM streams WHERE run_id > %(after)s ORDER BY run_id LIMIT %(limit)s) s ORDER BY s.run_id"""
_OLD_SLOTS = """SELECT slot_at FROM slots WHERE schedule = %(schedule)s AND slot_at < %(before)s AND last_at < %(before)s
    AND slot_at < (SELECT max(slot_at) FROM slots WHERE schedule = %(schedule)s) ORDER BY slot_at LIMIT %(limit)s"""
_OPEN = """SELECT r.id FROM unnest('{1,2,3}'::smallint[]) AS w(wanted), LATERAL (SELECT id FROM runs
    WHERE state = w.wanted AND id > %(after)s AND program = ANY(%(programs)s::int[]) ORDER BY id LIMIT %(limit)s) r
    ORDER BY r.id LIMIT %(limit)s"""
_MEASURE = f"""SELECT (SELECT count(*) FROM journal WHERE run_id = {_IDS}), """ + " + ".join(
    f"(SELECT coalesce(sum(octet_length(body)), 0) FROM {table} WHERE run_id = {_IDS})"
    for table in ("journal", "rows", "cut_rows", "parts", "states", "inbox")
)


_PUT_PRUNE = """INSERT INTO {table} (run_id, upto, at, why) VALUES (%(run_id)s, %(upto)s, %(at)s, %(why)s)
    ON CONFLICT (run_id) DO UPDATE SET upto = excluded.upto, at = excluded.at, why = excluded.why"""


class RetentionVerbs(Begun):
    """What is kept how long, and what is removed."""

    def put_retention(self, rows: Sequence[RetentionRow]) -> None:
        """Write how long programs' layers are kept."""
        names = [row.program for row in rows]
        texts.check(names, "a program's name")
        self._tell(
            _PUT,
            programs=TextArray(names),
            runs=longs([row.runs for row in rows]),
            journals=longs([row.journal for row in rows]),
            checkpoints=longs([row.checkpoints for row in rows]),
            streams=longs([row.stream for row in rows]),
            slots=longs([row.slots for row in rows]),
        )

    def retention(self) -> list[RetentionRow]:
        """Return how long programs' layers are kept."""
        rows = self._ask(f"SELECT {_LAYERS} FROM retention ORDER BY program")
        return [RetentionRow._make(row) for row in rows]

    def ended_runs(self, program: int, *, before: int, after: tuple[int, int], limit: int) -> list[tuple[int, int]]:
        """Return runs that ended before a moment."""
        statement = """SELECT due_at, id FROM runs WHERE state >= 4 AND program = %(program)s AND due_at < %(before)s
            AND (due_at, id) > (%(at)s, %(id)s) ORDER BY due_at, id LIMIT %(limit)s"""
        rows = self._ask(statement, program=program, before=before, at=after[0], id=after[1], limit=limit)
        return [(row[0], row[1]) for row in rows]

    def open_runs(self, programs: Sequence[int], *, after: int, limit: int) -> list[int]:
        """Return runs that have not ended."""
        return [row[0] for row in self._ask(_OPEN, programs=longs(programs), after=after, limit=limit)]

    def held_back(self, ids: Sequence[int]) -> set[int]:
        """Return runs with something on its way."""
        statement = " UNION ".join(f"SELECT run_id FROM {table} WHERE run_id = {_IDS}" for table in ON_THEIR_WAY)
        return {row[0] for row in self._ask(statement, ids=longs(ids))}

    def drop_of_runs(self, ids: Sequence[int], *, limit: int) -> tuple[int, bool]:
        """Remove rows of runs, then the runs."""
        given, entries = longs(ids), 0
        for table in _LONG:
            statement = f"""WITH gone AS (DELETE FROM {table} WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM {table} WHERE run_id = {_IDS} LIMIT %(limit)s)) RETURNING 1)
                SELECT count(*) FROM gone"""
            gone = int(self._ask(statement, ids=given, limit=limit)[0][0])
            entries = gone if table == "journal" else entries
            if gone >= limit:
                return entries, True
        for table in OF_A_RUN:
            if table not in _LONG:
                self._tell(f"DELETE FROM {table} WHERE run_id = {_IDS}", ids=given)
        self._tell(f"DELETE FROM runs WHERE id = {_IDS}", ids=given)
        return entries, False

    def measure(self, ids: Sequence[int]) -> tuple[int, int]:
        """Return entries and bytes."""
        entries, count = self._ask(_MEASURE, ids=longs(ids))[0]
        return int(entries), int(count)

    def old_entries(self, run: int, *, before: int, below: int, limit: int) -> tuple[int, int, int]:
        """Look at the oldest entries."""
        statement = """SELECT seq, at, coalesce(octet_length(body), 0) FROM journal
            WHERE run_id = %(run)s AND seq < %(below)s ORDER BY seq LIMIT %(limit)s"""
        return old_end(self._ask(statement, run=run, below=below, limit=limit), before)

    def cut_journal(self, run: int, upto: int) -> None:
        """Remove entries."""
        self._tell("DELETE FROM journal WHERE run_id = %(run)s AND seq <= %(upto)s", run=run, upto=upto)

    def empty_old(self, run: int, *, before: int, below: int) -> None:
        """Empty old checkpoints."""
        self._tell(
            """UPDATE journal SET body = NULL WHERE run_id = %(run)s AND kind = 3 AND body IS NOT NULL
            AND seq < %(below)s AND at < %(before)s""",
            run=run,
            before=before,
            below=below,
        )

    def put_prune(self, row: PruneRow) -> None:
        """Say what was pruned."""
        texts.check((row.why,), "why something was pruned")
        self._tell(_PUT_PRUNE.format(table="prunes"), **row._asdict())

    def prunes(self, ids: Sequence[int]) -> dict[int, PruneRow]:
        """Return what was pruned."""
        statement = "SELECT run_id, upto, at, why FROM prunes WHERE run_id = ANY(%(ids)s::bigint[])"
        return {row[0]: PruneRow._make(row) for row in self._ask(statement, ids=longs(ids))}

    def oldest_parts(self, *, after: int, limit: int) -> list[tuple[int, int | None]]:
        """Return when the oldest part of each stream was written."""
        return [(row[0], row[1]) for row in self._ask(_OLDEST_PARTS, after=after, limit=limit)]

    def old_parts(self, run: int, *, before: int, below: int, limit: int) -> tuple[int, int, int]:
        """Look at the oldest parts."""
        statement = """SELECT n, at, octet_length(body) FROM parts
            WHERE run_id = %(run)s AND n < %(below)s ORDER BY n LIMIT %(limit)s"""
        return old_end(self._ask(statement, run=run, below=below, limit=limit), before)

    def cut_stream(self, row: PruneRow) -> None:
        """Remove parts, and say so."""
        texts.check((row.why,), "why something was pruned")
        self._tell("DELETE FROM parts WHERE run_id = %(run)s AND n <= %(upto)s", run=row.run_id, upto=row.upto)
        self._tell(_PUT_PRUNE.format(table="stream_prunes"), **row._asdict())

    def stream_prunes(self, ids: Sequence[int]) -> dict[int, PruneRow]:
        """Return what was pruned of streams."""
        statement = "SELECT run_id, upto, at, why FROM stream_prunes WHERE run_id = ANY(%(ids)s::bigint[])"
        return {row[0]: PruneRow._make(row) for row in self._ask(statement, ids=longs(ids))}

    def old_slots(self, schedule: int, *, before: int, limit: int) -> list[int]:
        """Return old slots."""
        return [row[0] for row in self._ask(_OLD_SLOTS, schedule=schedule, before=before, limit=limit)]

    def drop_slots(self, schedule: int, slots: Sequence[int]) -> None:
        """Remove slots."""
        statement = "DELETE FROM slots WHERE schedule = %(schedule)s AND slot_at = ANY(%(slots)s::bigint[])"
        self._tell(statement, schedule=schedule, slots=longs(slots))

    def forget_blobs(self, run: int) -> None:
        """Forget names of blobs."""
        self._tell(f"DELETE FROM blob_runs WHERE run_id = %(run)s AND digest NOT IN ({NAMED})", run=run)
