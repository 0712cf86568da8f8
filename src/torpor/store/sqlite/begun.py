"""What all verbs of a transaction on SQLite share: the connection, the moment, the hints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torpor.store.outside import Errands, Outside
from torpor.store.sqlite.lending import lent

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from torpor.store.sqlite.connect import Connection


class Begun:
    """A transaction that has begun. `hints` is filled here and sent by the store after the commit."""

    def __init__(self, db: Connection, clock: Callable[[], int], errands: Errands | None = None) -> None:
        """Begin to speak to an open transaction."""
        self._db = db
        self._errands = errands or Errands(Outside())
        self._clock = clock
        self._now: int | None = None
        self.hints: list[str] = []

    def now(self) -> int:
        """Return the host's clock, read once: on SQLite it is the database's."""
        if self._now is None:
            self._now = self._clock()
        return self._now

    def alone(self) -> None:
        """Change nothing: a commit here is no round trip."""

    def hint(self, *topics: str) -> None:
        """Remember hints for after the commit."""
        self.hints += [topic for topic in dict.fromkeys(topics) if topic not in self.hints]

    def lend(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend the connection to a transactional effect (G6)."""
        self._errands.inside = True
        return lent(self._db)

    def connection(self) -> Connection:
        """Return the connection of this transaction, for torpor's own housekeeping and its tests."""
        return self._db

    def _many(self, statement: str, ids: Sequence[int], rest: str = "") -> list[Any]:
        return self._db.execute(
            f"{statement} (SELECT value FROM json_each(?)) {rest}", (json.dumps(list(ids)),)
        ).fetchall()
