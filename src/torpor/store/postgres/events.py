"""Verbs on PostgreSQL: events, answers to messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.event import EventRow
from torpor.store import texts
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import NewReply
    from torpor.core.event import NewEvent

_COLUMNS = "id, at, expires_at, reached, taken, name, key, body"
_LOCK = """SELECT pg_advisory_xact_lock(m) FROM (SELECT m FROM unnest(%(matches)s::bigint[]) AS u(m) ORDER BY m OFFSET 0) s"""
_ADD = """WITH added AS (INSERT INTO events (at, expires_at, reached, name, key, body)
    VALUES (%(now)s, %(expires)s, 0, %(name)s, %(key)s, %(body)s)
    ON CONFLICT (name, key) WHERE key IS NOT NULL DO NOTHING RETURNING id),
    matched AS (INSERT INTO event_matches (matches, event) SELECT m, id FROM added, unnest(%(matches)s::bigint[]) AS u(m))
    SELECT id FROM added"""
_RUNS = """SELECT DISTINCT w.run_id FROM unnest(%(matches)s::bigint[]) AS u(m), LATERAL (SELECT w.run_id FROM waits w
    WHERE w.kind = 8 AND w.over = 0 AND w.answered_at IS NULL AND w.matches = u.m AND w.run_id > %(after)s
    ORDER BY w.run_id LIMIT %(limit)s) w ORDER BY w.run_id LIMIT %(limit)s"""
_EARLY = """SELECT e.id, e.at, e.expires_at, e.reached, e.taken, e.name, e.key, e.body FROM event_matches m
    JOIN events e ON e.id = m.event WHERE m.matches = %(match)s AND m.event > %(after)s AND e.body IS NOT NULL
    AND e.expires_at > %(now)s
    AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.run_id = %(run)s AND i.key = '~event:' || e.id)
    ORDER BY m.event LIMIT %(limit)s"""
_MARK = """WITH k AS MATERIALIZED (SELECT w.run_id, w.slot FROM waits w JOIN unnest(%(runs)s::bigint[], %(slots)s::int[],
    %(seqs)s::int[]) AS b(run_id, slot, seq) ON w.run_id = b.run_id AND w.slot = b.slot AND w.seq = b.seq
    WHERE w.answered_at IS NULL AND w.over = 0 ORDER BY w.run_id, w.slot FOR UPDATE OF w)
    UPDATE waits w SET answered_at = %(now)s FROM k WHERE w.run_id = k.run_id AND w.slot = k.slot"""
_EXPIRE = """WITH old AS MATERIALIZED (SELECT id FROM events WHERE body IS NOT NULL AND expires_at <= %(now)s
    ORDER BY expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED),
    unmatched AS (DELETE FROM event_matches m USING old WHERE m.event = old.id),
    gone AS (DELETE FROM events e USING old WHERE e.id = old.id AND e.taken > 0),
    kept AS (UPDATE events e SET body = NULL, reached = NULL FROM old WHERE e.id = old.id AND e.taken = 0)
    SELECT count(*) FROM old"""
_DROP_EVENTS = """WITH gone AS (DELETE FROM events WHERE id IN (SELECT id FROM events WHERE body IS NULL
    AND expires_at < %(before)s LIMIT %(limit)s FOR UPDATE SKIP LOCKED) RETURNING 1) SELECT count(*) FROM gone"""
_DROP_REPLIES = """WITH gone AS (DELETE FROM replies WHERE key IN (SELECT key FROM replies WHERE at < %(before)s
    LIMIT %(limit)s FOR UPDATE SKIP LOCKED) RETURNING 1) SELECT count(*) FROM gone"""
_PUT_REPLIES = """INSERT INTO replies (key, run_id, at, body) SELECT key, run_id, %(now)s, body
    FROM unnest(%(keys)s::text[], %(runs)s::bigint[], %(bodies)s::bytea[]) AS r(key, run_id, body) ORDER BY key
    ON CONFLICT DO NOTHING"""


class EventVerbs(Begun):
    """Events, answers."""

    def lock_matches(self, matches: Sequence[int]) -> None:
        """Lock the matches, in order, until the transaction ends."""
        self._ask(_LOCK, matches=longs(sorted(matches)))

    def add_event(self, event: NewEvent) -> tuple[int, bool]:
        """Keep an event."""
        texts.check((event.name, event.key), "an event's name or key")
        added = self._ask(
            _ADD,
            now=self.now(),
            expires=event.expires_at,
            name=event.name,
            key=event.key,
            body=event.body,
            matches=longs(event.matches),
        )
        if added:
            return int(added[0][0]), True
        known = self._ask(
            "SELECT id FROM events WHERE name = %(name)s AND key = %(key)s", name=event.name, key=event.key
        )
        return int(known[0][0]), False

    def get_event(self, event: int) -> EventRow | None:
        """Return an event that has not expired."""
        rows = self._ask(
            f"SELECT {_COLUMNS} FROM events WHERE id = %(event)s AND body IS NOT NULL AND expires_at > %(now)s",
            event=event,
            now=self.now(),
        )
        return EventRow(*rows[0]) if rows else None

    def going_events(self, *, limit: int, name: str | None = None) -> list[EventRow]:
        """Return events whose fan-out is not through."""
        named = "" if name is None else "AND name = %(name)s"
        statement = f"SELECT {_COLUMNS} FROM events WHERE reached IS NOT NULL {named} ORDER BY id LIMIT %(limit)s"
        return [EventRow(*row) for row in self._ask(statement, limit=limit, **({} if name is None else {"name": name}))]

    def move_event(self, event: int, *, reached: int | None, taken: int) -> None:
        """Say how far the fan-out came."""
        statement = "UPDATE events SET reached = %(reached)s::bigint, taken = taken + %(taken)s WHERE id = %(event)s"
        self._tell(statement, reached=reached, taken=taken, event=event)

    def runs_waiting_for(self, matches: Sequence[int], *, after: int, limit: int) -> list[int]:
        """Return runs that wait for such an event."""
        return [int(row[0]) for row in self._ask(_RUNS, matches=longs(matches), after=after, limit=limit)]

    def early_events(self, match: int, run: int, *, after: int, limit: int) -> list[EventRow]:
        """Return kept events of a match that this run never got."""
        rows = self._ask(_EARLY, match=match, run=run, after=after, now=self.now(), limit=limit)
        return [EventRow(*row) for row in rows]

    def mark_waits(self, waits: Sequence[tuple[int, int, int]]) -> None:
        """Say that what ends these waits is in the inbox."""
        runs, slots, seqs = ([wait[n] for wait in waits] for n in range(3))
        self._tell(_MARK, now=self.now(), runs=longs(runs), slots=longs(slots), seqs=longs(seqs))

    def list_events(self, *, limit: int) -> list[EventRow]:
        """Return the newest events."""
        statement = f"SELECT {_COLUMNS} FROM events ORDER BY id DESC LIMIT %(limit)s"
        return [EventRow(*row) for row in self._ask(statement, limit=limit)]

    def expire_events(self, *, limit: int) -> int:
        """Let go of events whose time is over."""
        return int(self._ask(_EXPIRE, now=self.now(), limit=limit)[0][0])

    def drop_events(self, *, before: int, limit: int) -> int:
        """Forget events that reached nobody."""
        return int(self._ask(_DROP_EVENTS, before=before, limit=limit)[0][0])

    def known_keys(self, run: int, keys: Sequence[str]) -> set[str]:
        """Return the keys that the inbox has seen."""
        statement = "SELECT key FROM inbox WHERE run_id = %(run)s AND key = ANY(%(keys)s::text[])"
        return {row[0] for row in self._ask(statement, run=run, keys=TextArray(list(keys)))}

    def put_replies(self, replies: Sequence[tuple[int, NewReply]]) -> None:
        """Keep answers to clients."""
        self._tell(
            _PUT_REPLIES,
            now=self.now(),
            keys=TextArray([reply.key for _, reply in replies]),
            runs=longs([run for run, _ in replies]),
            bodies=ByteaArray([reply.body for _, reply in replies]),
        )

    def get_reply(self, key: str) -> bytes | None:
        """Return the answer of a key."""
        rows = self._ask("SELECT body FROM replies WHERE key = %(key)s", key=key)
        return bytes(rows[0][0]) if rows else None

    def drop_replies(self, *, before: int, limit: int) -> int:
        """Forget old answers."""
        return int(self._ask(_DROP_REPLIES, before=before, limit=limit)[0][0])
