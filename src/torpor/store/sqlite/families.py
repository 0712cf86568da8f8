"""Verbs on SQLite: children, follow-ups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torpor.core.run import State
from torpor.store.rows import FollowUp
from torpor.store.sqlite.begun import Begun
from torpor.store.sqlite.hot import RUN_COLUMNS, run_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import RunRow

# The indexes are named, because SQLite's planner knows nothing of sizes and might walk everything that is alive.
_LIVE = """SELECT parent, id FROM runs INDEXED BY runs_children WHERE parent = ? AND id > ? AND state < 4
    ORDER BY id LIMIT ?"""
_CHILDREN = f"""SELECT {RUN_COLUMNS} FROM runs INDEXED BY runs_family WHERE parent = ? ORDER BY id DESC LIMIT ?"""
_COUNT = """SELECT state, count(*) FROM (SELECT state FROM runs INDEXED BY runs_family WHERE parent = ?
    ORDER BY id DESC LIMIT ?) GROUP BY state ORDER BY state"""

_UNDELIVERED = "SELECT EXISTS (SELECT 1 FROM outbox) OR EXISTS (SELECT 1 FROM follow_ups)"
_SPENT = """SELECT key FROM inbox WHERE run_id = ? AND key IN (SELECT value FROM json_each(?)) AND key IS NOT NULL
    AND body IS NULL"""

_FORGET = """DELETE FROM inbox WHERE run_id = ? AND key IN (SELECT value FROM json_each(?)) AND key IS NOT NULL
    AND body IS NULL"""


class FamilyVerbs(Begun):
    """Children, and what follows a run's end."""

    def add_follow_ups(self, ids: Sequence[int]) -> None:
        """Write follow-ups that are not there."""
        self._db.executemany("INSERT INTO follow_ups (run_id) VALUES (?) ON CONFLICT DO NOTHING", [(n,) for n in ids])

    def follow_ups(self, *, limit: int) -> list[FollowUp]:
        """Return follow-ups."""
        rows = self._db.execute("SELECT run_id, after FROM follow_ups ORDER BY run_id LIMIT ?", (limit,))
        return [FollowUp(*row) for row in rows]

    def move_follow_ups(self, places: Sequence[FollowUp]) -> None:
        """Move follow-ups on."""
        self._db.executemany(
            "UPDATE follow_ups SET after = ? WHERE run_id = ?", [(place.after, place.run_id) for place in places]
        )

    def drop_follow_ups(self, ids: Sequence[int]) -> None:
        """Remove follow-ups."""
        self._db.executemany("DELETE FROM follow_ups WHERE run_id = ?", [(n,) for n in ids])

    def backlog(self, *, most: int) -> tuple[int, int]:
        """Count what was not seen to."""
        (messages,) = self._db.execute("SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT ?)", (most,)).fetchone()
        (notes,) = self._db.execute("SELECT count(*) FROM (SELECT 1 FROM follow_ups LIMIT ?)", (most,)).fetchone()
        return messages, notes

    def undelivered(self) -> bool:
        """Whether there are messages or follow-ups."""
        return bool(self._db.execute(_UNDELIVERED).fetchone()[0])

    def live_children(self, places: Sequence[FollowUp], *, limit: int) -> list[tuple[int, int]]:
        """Return children that did not end."""
        found: list[tuple[int, int]] = []
        for parent, after in sorted(places):
            if len(found) == limit:
                break
            found += self._db.execute(_LIVE, (parent, after, limit - len(found))).fetchall()
        return found

    def children(self, parent: int, *, limit: int) -> list[RunRow]:
        """Return the newest children."""
        return [run_row(row) for row in self._db.execute(_CHILDREN, (parent, limit))][::-1]

    def count_children(self, parent: int, *, most: int) -> dict[State, int]:
        """Count children by state."""
        return {State(state): count for state, count in self._db.execute(_COUNT, (parent, most))}

    def count_down(self, waits: Sequence[tuple[int, int, int]]) -> None:
        """Lower what waits need."""
        self._db.executemany(
            "UPDATE waits SET need = need - ? WHERE run_id = ? AND slot = ?",
            [(fewer, run_id, slot) for run_id, slot, fewer in waits],
        )

    def spent(self, run: int, keys: Sequence[str]) -> set[str]:
        """Return keys of consumed signals."""
        rows = self._db.execute(_SPENT, (run, json.dumps([*keys])))
        return {row[0] for row in rows}

    def forget_spent(self, run: int, keys: Sequence[str]) -> None:
        """Forget consumed signals."""
        self._db.execute(_FORGET, (run, json.dumps([*keys])))

    def name_blobs(self, names: Sequence[tuple[bytes, int]]) -> None:
        """Say that runs name blobs."""
        self._db.executemany("INSERT INTO blob_runs (digest, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING", names)
