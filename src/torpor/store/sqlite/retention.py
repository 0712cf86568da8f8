"""Verbs on SQLite: how long things are kept, and their removal in bounded parts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torpor.store import texts
from torpor.store.history_rows import PruneRow, RetentionRow, old_end
from torpor.store.sqlite.begun import Begun
from torpor.store.sqlite.history import EMPTIED, NAMED
from torpor.store.tables import OF_A_RUN, ON_THEIR_WAY

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAYERS = "program, runs, journal, checkpoints, stream, slots"
_IDS = "(SELECT value FROM json_each(?1))"
_LONG = {"journal": "rowid", "rows": "rowid", "cut_rows": "rowid", "parts": "rowid", "inbox": "seq"}
"""Tables in which one run can have very many rows, and what names a row there."""
LAST_NUMBER = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'last_run'"
"""The highest number that a run had when one was removed; what is started later gets a higher one."""
_KEEP_LAST_NUMBER = f"""INSERT OR REPLACE INTO meta (key, value)
    SELECT 'last_run', CAST(max(ifnull(max(id), 0), ifnull(({LAST_NUMBER}), 0)) AS TEXT) FROM runs"""


class RetentionVerbs(Begun):
    """What is kept how long, and what is removed."""

    def put_retention(self, rows: Sequence[RetentionRow]) -> None:
        """Write how long programs' layers are kept."""
        texts.check((row.program for row in rows), "a program's name")
        self._db.executemany(f"INSERT OR REPLACE INTO retention ({_LAYERS}) VALUES (?, ?, ?, ?, ?, ?)", rows)

    def retention(self) -> list[RetentionRow]:
        """Return how long programs' layers are kept."""
        rows = self._db.execute(f"SELECT {_LAYERS} FROM retention ORDER BY program")
        return [RetentionRow(*row) for row in rows]

    def ended_runs(self, program: int, *, before: int, after: tuple[int, int], limit: int) -> list[tuple[int, int]]:
        """Return runs that ended before a moment."""
        rows = self._db.execute(
            "SELECT due_at, id FROM runs INDEXED BY runs_ended WHERE state >= 4 AND program = ? AND due_at < ?"
            " AND (due_at, id) > (?, ?) ORDER BY due_at, id LIMIT ?",
            (program, before, *after, limit),
        )
        return [(row[0], row[1]) for row in rows]

    def open_runs(self, programs: Sequence[int], *, after: int, limit: int) -> list[int]:
        """Return runs that have not ended."""
        found: list[int] = []
        for state in (1, 2, 3):
            rows = self._db.execute(
                "SELECT id FROM runs INDEXED BY runs_state WHERE state = ?2 AND id > ?3"
                f" AND program IN {_IDS} ORDER BY id LIMIT ?4",
                (json.dumps(list(programs)), state, after, limit),
            )
            found += [row[0] for row in rows]
        return sorted(found)[:limit]

    def held_back(self, ids: Sequence[int]) -> set[int]:
        """Return runs with something on its way."""
        return {
            row[0] for table in ON_THEIR_WAY for row in self._many(f"SELECT run_id FROM {table} WHERE run_id IN", ids)
        }

    def drop_of_runs(self, ids: Sequence[int], *, limit: int) -> tuple[int, bool]:
        """Remove rows of runs, then the runs."""
        given = json.dumps(list(ids))
        entries = 0
        for table, place in _LONG.items():
            left = limit
            for run_id in ids:
                cursor = self._db.execute(
                    f"DELETE FROM {table} WHERE run_id = ?1 AND {place} IN"
                    f" (SELECT {place} FROM {table} WHERE run_id = ?1 LIMIT ?2)",
                    (run_id, left),
                )
                left -= cursor.rowcount
                if left <= 0:
                    return (limit if table == "journal" else entries), True
            entries = limit - left if table == "journal" else entries
        for table in OF_A_RUN:
            if table not in _LONG:
                self._db.execute(f"DELETE FROM {table} WHERE run_id IN {_IDS}", (given,))
        self._db.execute(_KEEP_LAST_NUMBER)
        self._db.execute(f"DELETE FROM runs WHERE id IN {_IDS}", (given,))
        return entries, False

    def measure(self, ids: Sequence[int]) -> tuple[int, int]:
        """Return entries and bytes."""
        given = (json.dumps(list(ids)),)
        entries, count = self._db.execute(
            f"SELECT count(*), coalesce(sum(length(body)), 0) FROM journal WHERE run_id IN {_IDS}", given
        ).fetchone()
        for table in ("rows", "cut_rows", "parts", "states", "inbox"):
            statement = f"SELECT coalesce(sum(length(body)), 0) FROM {table} WHERE run_id IN {_IDS}"
            count += self._db.execute(statement, given).fetchone()[0]
        return entries, count

    def old_entries(self, run: int, *, before: int, below: int, limit: int) -> tuple[int, int, int]:
        """Look at the oldest entries."""
        rows = self._db.execute(
            "SELECT seq, at, coalesce(length(body), 0) FROM journal WHERE run_id = ? AND seq < ? ORDER BY seq LIMIT ?",
            (run, below, limit),
        )
        return old_end(rows, before)

    def cut_journal(self, run: int, upto: int) -> None:
        """Remove entries."""
        self._db.execute("DELETE FROM journal WHERE run_id = ? AND seq <= ?", (run, upto))

    def empty_old(self, run: int, *, before: int, below: int) -> None:
        """Empty old checkpoints."""
        self._db.execute(
            f"{EMPTIED} AND seq IN (SELECT seq FROM journal INDEXED BY journal_whole"
            " WHERE run_id = ?1 AND kind = 3 AND body IS NOT NULL AND seq < ?3 AND at < ?2)",
            (run, before, below),
        )

    def put_prune(self, row: PruneRow) -> None:
        """Say what was pruned."""
        texts.check((row.why,), "why something was pruned")
        self._db.execute("INSERT OR REPLACE INTO prunes (run_id, upto, at, why) VALUES (?, ?, ?, ?)", row)

    def prunes(self, ids: Sequence[int]) -> dict[int, PruneRow]:
        """Return what was pruned."""
        rows = self._many("SELECT run_id, upto, at, why FROM prunes WHERE run_id IN", ids)
        return {row[0]: PruneRow(*row) for row in rows}

    def oldest_parts(self, *, after: int, limit: int) -> list[tuple[int, int | None]]:
        """Return when the oldest part of each stream was written."""
        rows = self._db.execute(
            "SELECT run_id, (SELECT p.at FROM parts p WHERE p.run_id = s.run_id ORDER BY p.n LIMIT 1)"
            " FROM streams s WHERE run_id > ? ORDER BY run_id LIMIT ?",
            (after, limit),
        )
        return [(row[0], row[1]) for row in rows]

    def old_parts(self, run: int, *, before: int, below: int, limit: int) -> tuple[int, int, int]:
        """Look at the oldest parts."""
        rows = self._db.execute(
            "SELECT n, at, length(body) FROM parts WHERE run_id = ? AND n < ? ORDER BY n LIMIT ?", (run, below, limit)
        )
        return old_end(rows, before)

    def cut_stream(self, row: PruneRow) -> None:
        """Remove parts, and say so."""
        texts.check((row.why,), "why something was pruned")
        self._db.execute("DELETE FROM parts WHERE run_id = ? AND n <= ?", (row.run_id, row.upto))
        self._db.execute("INSERT OR REPLACE INTO stream_prunes (run_id, upto, at, why) VALUES (?, ?, ?, ?)", row)

    def stream_prunes(self, ids: Sequence[int]) -> dict[int, PruneRow]:
        """Return what was pruned of streams."""
        rows = self._many("SELECT run_id, upto, at, why FROM stream_prunes WHERE run_id IN", ids)
        return {row[0]: PruneRow(*row) for row in rows}

    def old_slots(self, schedule: int, *, before: int, limit: int) -> list[int]:
        """Return old slots."""
        rows = self._db.execute(
            "SELECT slot_at FROM slots WHERE schedule = ?1 AND slot_at < ?2 AND last_at < ?2"
            " AND slot_at < (SELECT max(slot_at) FROM slots WHERE schedule = ?1) ORDER BY slot_at LIMIT ?3",
            (schedule, before, limit),
        )
        return [row[0] for row in rows]

    def drop_slots(self, schedule: int, slots: Sequence[int]) -> None:
        """Remove slots."""
        self._db.executemany("DELETE FROM slots WHERE schedule = ? AND slot_at = ?", [(schedule, at) for at in slots])

    def forget_blobs(self, run: int) -> None:
        """Forget names of blobs."""
        self._db.execute(f"DELETE FROM blob_runs WHERE run_id = ?1 AND digest NOT IN ({NAMED})", (run,))
