"""Verbs on SQLite: lines, deadlines, cancels, traces. The one writer of SQLite needs no row locks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torpor.core.run import Flag
from torpor.store import texts
from torpor.store.rows import CompensationRow, InLine, LineRow
from torpor.store.sqlite.begun import Begun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.store.rows import PlaceRow

_LINE = """SELECT id, name, places, (SELECT count(*) FROM places p WHERE p.line = l.id AND p.held = 1),
    EXISTS (SELECT 1 FROM places p WHERE p.line = l.id AND p.held = 0) FROM lines l WHERE"""
_STIR = "UPDATE lines SET stirred = 1 WHERE id IN (SELECT line FROM places WHERE run_id IN (SELECT value FROM json_each(?)))"
_AHEAD = """SELECT count(*) FROM (SELECT 1 FROM places WHERE line = ?1 AND held = 1
    UNION ALL SELECT 1 FROM places WHERE line = ?1 AND held = 0 AND (prio, run_id) < (?2, ?3) LIMIT ?4)"""


def _line(row: tuple[int, str, int, int, int]) -> LineRow:
    return LineRow(row[0], row[1], row[2], row[3], bool(row[4]))


class LineVerbs(Begun):
    """Lines, places, deadlines, cancels, traces."""

    def open_lines(self, wanted: Mapping[str, int]) -> dict[str, LineRow]:
        """Return lines, written if they are not there."""
        texts.check(wanted, "a line's name")
        self._db.executemany(
            "INSERT INTO lines (name, places) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET places = excluded.places,"
            " stirred = max(stirred, excluded.places > places) WHERE places <> excluded.places",
            list(wanted.items()),
        )
        return {name: _line(self._db.execute(f"{_LINE} name = ?", (name,)).fetchone()) for name in wanted}

    def lock_line(self, line: int) -> LineRow:
        """Return a line."""
        return _line(self._db.execute(f"{_LINE} id = ?", (line,)).fetchone())

    def put_places(self, places: Sequence[PlaceRow]) -> None:
        """Write places."""
        self._db.executemany("INSERT INTO places (run_id, line, prio, held) VALUES (?, ?, ?, ?)", places)
        self._db.executemany("UPDATE lines SET stirred = 1 WHERE id = ?", [(p.line,) for p in places if p.held == 0])

    def queue_runs(self, ids: Sequence[int]) -> None:
        """Put runs to sleep without a moment."""
        self._db.executemany(
            f"UPDATE runs SET state = 2, due_at = NULL, flags = flags | {int(Flag.LINE | Flag.QUEUED)} WHERE id = ?",
            [(run_id,) for run_id in ids],
        )

    def arrive(self, ids: Sequence[int]) -> None:
        """Let runs wait for a place."""
        self._db.executemany("UPDATE places SET held = 0 WHERE run_id = ?", [(run_id,) for run_id in ids])
        self._db.execute(_STIR, (json.dumps(list(ids)),))

    def hold_places(self, ids: Sequence[int]) -> None:
        """Give places."""
        self._db.executemany("UPDATE places SET held = 1 WHERE run_id = ?", [(run_id,) for run_id in ids])

    def leave_lines(self, ids: Sequence[int]) -> None:
        """Take runs out of their lines."""
        self._db.execute(_STIR, (json.dumps(list(ids)),))
        self._db.executemany("DELETE FROM places WHERE run_id = ?", [(run_id,) for run_id in ids])

    def stirred_lines(self, *, limit: int) -> list[int]:
        """Return stirred lines."""
        rows = self._db.execute(
            "SELECT id FROM lines INDEXED BY lines_stirred WHERE stirred = 1 ORDER BY id LIMIT ?", (limit,)
        )
        return [row[0] for row in rows]

    def calm_line(self, line: int) -> None:
        """Say that nobody can get a place."""
        self._db.execute("UPDATE lines SET stirred = 0 WHERE id = ?", (line,))

    def queue(self, line: int, *, limit: int) -> list[int]:
        """Return who waits."""
        rows = self._db.execute(
            "SELECT run_id FROM places WHERE line = ? AND held = 0 ORDER BY prio, run_id LIMIT ?", (line, limit)
        )
        return [row[0] for row in rows]

    def in_line(self, ids: Sequence[int], *, most: int) -> dict[int, InLine]:
        """Return where runs stand."""
        rows = self._many(
            "SELECT p.run_id, p.line, p.prio, p.held, l.name, l.places FROM places p JOIN lines l ON l.id = p.line"
            " WHERE p.run_id IN",
            ids,
        )
        found = {}
        for run_id, line, prio, held, name, places in rows:
            ahead = 0 if held else self._db.execute(_AHEAD, (line, prio, run_id, most)).fetchone()[0]
            found[run_id] = InLine(name, places, held == 1, ahead)
        return found

    def put_deadlines(self, deadlines: Sequence[tuple[int, int]]) -> None:
        """Write deadlines."""
        self._db.executemany("INSERT INTO deadlines (run_id, due_at) VALUES (?, ?) ON CONFLICT DO NOTHING", deadlines)

    def due_deadlines(self, *, before: int, limit: int) -> list[int]:
        """Return runs whose deadline has passed."""
        rows = self._db.execute(
            "SELECT run_id FROM deadlines INDEXED BY deadlines_due WHERE due_at <= ? ORDER BY due_at LIMIT ?",
            (before, limit),
        )
        return [row[0] for row in rows]

    def next_deadline(self) -> int | None:
        """Return the earliest deadline."""
        row = self._db.execute("SELECT min(due_at) FROM deadlines").fetchone()
        return None if row[0] is None else int(row[0])

    def deadlines(self, ids: Sequence[int]) -> dict[int, int]:
        """Return deadlines."""
        return dict(self._many("SELECT run_id, due_at FROM deadlines WHERE run_id IN", ids))

    def drop_deadlines(self, ids: Sequence[int]) -> None:
        """Remove deadlines."""
        self._db.executemany("DELETE FROM deadlines WHERE run_id = ?", [(run_id,) for run_id in ids])

    # cancels

    def put_cancels(self, reasons: Sequence[tuple[int, str]]) -> None:
        """Write reasons."""
        texts.check((reason for _, reason in reasons), "a reason")
        rows = [(run_id, self.now(), reason) for run_id, reason in reasons]
        self._db.executemany("INSERT INTO cancels (run_id, at, reason) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def cancels(self, ids: Sequence[int]) -> dict[int, str]:
        """Return reasons."""
        return dict(self._many("SELECT run_id, reason FROM cancels WHERE run_id IN", ids))

    def put_traces(self, parents: Sequence[tuple[int, str]]) -> None:
        """Write traceparents."""
        texts.check((parent for _, parent in parents), "a traceparent")
        self._db.executemany("INSERT INTO traces (run_id, parent) VALUES (?, ?) ON CONFLICT DO NOTHING", parents)

    def traces(self, ids: Sequence[int]) -> dict[int, str]:
        """Return traceparents."""
        return dict(self._many("SELECT run_id, parent FROM traces WHERE run_id IN", ids))

    def add_compensations(self, rows: Sequence[CompensationRow]) -> None:
        """Write compensations."""
        texts.check((row.ref for row in rows), "the name of a compensation")
        self._db.executemany("INSERT INTO compensations (run_id, n, ref, body) VALUES (?, ?, ?, ?)", rows)

    def drop_compensations(self, refs: Sequence[tuple[int, str]]) -> None:
        """Remove compensations."""
        self._db.executemany("DELETE FROM compensations WHERE run_id = ? AND ref = ?", refs)

    def compensations(self, run: int) -> list[CompensationRow]:
        """Return compensations."""
        rows = self._db.execute("SELECT run_id, n, ref, body FROM compensations WHERE run_id = ? ORDER BY n", (run,))
        return [CompensationRow(*row) for row in rows]
