"""Verbs on PostgreSQL: marks."""

from __future__ import annotations

from torpor.store import texts
from torpor.store.postgres.begun import Begun

_FIRST = """INSERT INTO marks (machine, lineage, counter, at, body)
    VALUES (%(machine)s, %(lineage)s, %(counter)s::bigint, torpor_now(), %(body)s) ON CONFLICT DO NOTHING RETURNING 1"""
_NEXT = """UPDATE marks SET lineage = %(lineage)s, counter = %(counter)s::bigint, at = torpor_now(), body = %(body)s
    WHERE machine = %(machine)s AND lineage = %(old)s AND counter = %(at)s::bigint RETURNING 1"""


class MarkVerbs(Begun):
    """Marks of machines."""

    def mark(self, machine: str) -> str | None:
        """Return a mark."""
        rows = self._ask("SELECT body FROM marks WHERE machine = %(machine)s", machine=machine)
        return str(rows[0][0]) if rows else None

    def set_mark(self, machine: str, expected: tuple[str, int] | None, new: tuple[str, int], body: str) -> bool:
        """Write a mark over the one that is expected: whoever waits for the row looks at it again, and finds another."""
        texts.check((machine, new[0]), "a machine's mark")
        given = {"machine": machine, "lineage": new[0], "counter": new[1], "body": body}
        if expected is None:
            return bool(self._ask(_FIRST, **given))
        return bool(self._ask(_NEXT, **given, old=expected[0], at=expected[1]))
