"""Verbs on SQLite: marks."""

from __future__ import annotations

from torpor.store import texts
from torpor.store.sqlite.begun import Begun

_FIRST = "INSERT INTO marks (machine, lineage, counter, at, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_NEXT = """UPDATE marks SET lineage = ?, counter = ?, at = ?, body = ?
    WHERE machine = ? AND lineage = ? AND counter = ?"""


class MarkVerbs(Begun):
    """Marks of machines."""

    def mark(self, machine: str) -> str | None:
        """Return a mark."""
        row = self._db.execute("SELECT body FROM marks WHERE machine = ?", (machine,)).fetchone()
        return None if row is None else str(row[0])

    def set_mark(self, machine: str, expected: tuple[str, int] | None, new: tuple[str, int], body: str) -> bool:
        """Write a mark over the one that is expected; one transaction writes at a time."""
        texts.check((machine, new[0]), "a machine's mark")
        if expected is None:
            return self._db.execute(_FIRST, (machine, *new, self.now(), body)).rowcount == 1
        return self._db.execute(_NEXT, (*new, self.now(), body, machine, *expected)).rowcount == 1
