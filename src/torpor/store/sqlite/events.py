"""Verbs on SQLite: events, answers to messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.event import EventRow
from torpor.store import texts
from torpor.store.sqlite.begun import Begun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import NewReply
    from torpor.core.event import NewEvent

_COLUMNS = "id, at, expires_at, reached, taken, name, key, body"
_EARLY = """SELECT e.id, e.at, e.expires_at, e.reached, e.taken, e.name, e.key, e.body FROM event_matches m
    CROSS JOIN events e ON e.id = m.event WHERE m.matches = ? AND m.event > ? AND e.body IS NOT NULL AND e.expires_at > ?
    AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.run_id = ? AND i.key = '~event:' || e.id)
    ORDER BY m.event LIMIT ?"""
_RUNS = """SELECT DISTINCT run_id FROM waits INDEXED BY waits_events WHERE kind = 8 AND over = 0 AND answered_at IS NULL
    AND matches = ? AND run_id > ? ORDER BY run_id LIMIT ?"""


class EventVerbs(Begun):
    """Events, answers."""

    def lock_matches(self, matches: Sequence[int]) -> None:
        """Do nothing: there is one writer."""

    def add_event(self, event: NewEvent) -> tuple[int, bool]:
        """Keep an event."""
        texts.check((event.name, event.key), "an event's name or key")
        if event.key is not None:
            given = (event.name, event.key)
            known = self._db.execute("SELECT id FROM events WHERE name = ? AND key = ?", given).fetchone()
            if known is not None:
                return int(known[0]), False
        number = self._db.execute(
            "INSERT INTO events (at, expires_at, reached, name, key, body) VALUES (?, ?, 0, ?, ?, ?) RETURNING id",
            (self.now(), event.expires_at, event.name, event.key, event.body),
        ).fetchone()[0]
        self._db.executemany(
            "INSERT INTO event_matches (matches, event) VALUES (?, ?)", [(match, number) for match in event.matches]
        )
        return int(number), True

    def get_event(self, event: int) -> EventRow | None:
        """Return an event that has not expired."""
        row = self._db.execute(
            f"SELECT {_COLUMNS} FROM events WHERE id = ? AND body IS NOT NULL AND expires_at > ?", (event, self.now())
        ).fetchone()
        return None if row is None else EventRow(*row)

    def going_events(self, *, limit: int, name: str | None = None) -> list[EventRow]:
        """Return events whose fan-out is not through."""
        rows = self._db.execute(
            f"SELECT {_COLUMNS} FROM events WHERE reached IS NOT NULL AND (?1 IS NULL OR name = ?1) ORDER BY id LIMIT ?2",
            (name, limit),
        )
        return [EventRow(*row) for row in rows]

    def move_event(self, event: int, *, reached: int | None, taken: int) -> None:
        """Say how far the fan-out came."""
        self._db.execute("UPDATE events SET reached = ?, taken = taken + ? WHERE id = ?", (reached, taken, event))

    def runs_waiting_for(self, matches: Sequence[int], *, after: int, limit: int) -> list[int]:
        """Return runs that wait for such an event."""
        found = {row[0] for match in matches for row in self._db.execute(_RUNS, (match, after, limit))}
        return sorted(found)[:limit]

    def early_events(self, match: int, run: int, *, after: int, limit: int) -> list[EventRow]:
        """Return kept events of a match that this run never got."""
        return [EventRow(*row) for row in self._db.execute(_EARLY, (match, after, self.now(), run, limit))]

    def mark_waits(self, waits: Sequence[tuple[int, int, int]]) -> None:
        """Say that what ends these waits is in the inbox."""
        self._db.executemany(
            "UPDATE waits SET answered_at = ? WHERE run_id = ? AND slot = ? AND seq = ? AND answered_at IS NULL AND over = 0",
            [(self.now(), *wait) for wait in waits],
        )

    def list_events(self, *, limit: int) -> list[EventRow]:
        """Return the newest events."""
        rows = self._db.execute(f"SELECT {_COLUMNS} FROM events ORDER BY id DESC LIMIT ?", (limit,))
        return [EventRow(*row) for row in rows]

    def expire_events(self, *, limit: int) -> int:
        """Let go of events whose time is over."""
        rows = self._db.execute(
            "SELECT id, taken FROM events WHERE body IS NOT NULL AND expires_at <= ? ORDER BY expires_at LIMIT ?",
            (self.now(), limit),
        ).fetchall()
        over = [(row[0],) for row in rows]
        self._db.executemany("DELETE FROM event_matches WHERE event = ?", over)
        self._db.executemany("DELETE FROM events WHERE id = ? AND taken > 0", over)
        self._db.executemany("UPDATE events SET body = NULL, reached = NULL WHERE id = ?", over)
        return len(over)

    def drop_events(self, *, before: int, limit: int) -> int:
        """Forget events that reached nobody."""
        cursor = self._db.execute(
            "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE body IS NULL AND expires_at < ? LIMIT ?)",
            (before, limit),
        )
        return cursor.rowcount

    def known_keys(self, run: int, keys: Sequence[str]) -> set[str]:
        """Return the keys that the inbox has seen."""
        asked = [(run, key) for key in keys]
        statement = "SELECT key FROM inbox WHERE run_id = ? AND key = ?"
        return {row[0] for given in asked if (row := self._db.execute(statement, given).fetchone()) is not None}

    def put_replies(self, replies: Sequence[tuple[int, NewReply]]) -> None:
        """Keep answers to clients."""
        self._db.executemany(
            "INSERT INTO replies (key, run_id, at, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [(reply.key, run, self.now(), reply.body) for run, reply in replies],
        )

    def get_reply(self, key: str) -> bytes | None:
        """Return the answer of a key."""
        row = self._db.execute("SELECT body FROM replies WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def drop_replies(self, *, before: int, limit: int) -> int:
        """Forget old answers."""
        cursor = self._db.execute(
            "DELETE FROM replies WHERE key IN (SELECT key FROM replies WHERE at < ? LIMIT ?)", (before, limit)
        )
        return cursor.rowcount
