"""Verbs on PostgreSQL: children, follow-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.run import State
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.postgres.hot import RUN_COLUMNS, run_row
from torpor.store.rows import FollowUp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import RunRow

_ADD = """INSERT INTO follow_ups (run_id) SELECT * FROM unnest(%(ids)s::bigint[]) AS f(run_id) ORDER BY run_id
    ON CONFLICT DO NOTHING"""
_OLDEST = "SELECT run_id, after FROM follow_ups ORDER BY run_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED"
_MOVE = """UPDATE follow_ups f SET after = m.after FROM unnest(%(ids)s::bigint[], %(afters)s::bigint[])
    AS m(run_id, after) WHERE f.run_id = m.run_id"""
_LIVE = """SELECT p.run_id, c.id FROM unnest(%(parents)s::bigint[], %(afters)s::bigint[]) AS p(run_id, after),
    LATERAL (SELECT id FROM runs r WHERE r.parent = p.run_id AND r.id > p.after AND r.state < 4
    ORDER BY id LIMIT %(limit)s) c ORDER BY p.run_id, c.id LIMIT %(limit)s"""
_CHILDREN = f"""SELECT {RUN_COLUMNS} FROM runs WHERE parent = %(parent)s ORDER BY id DESC LIMIT %(limit)s"""
_COUNT = """SELECT state, count(*) FROM (SELECT state FROM runs WHERE parent = %(parent)s ORDER BY id DESC
    LIMIT %(most)s) c GROUP BY state ORDER BY state"""
_DOWN = """UPDATE waits w SET need = w.need - d.fewer FROM unnest(%(runs)s::bigint[], %(slots)s::int[],
    %(fewer)s::int[]) AS d(run_id, slot, fewer) WHERE w.run_id = d.run_id AND w.slot = d.slot"""
_NAME = """INSERT INTO blob_runs (digest, run_id) SELECT DISTINCT digest, run_id
    FROM unnest(%(digests)s::bytea[], %(runs)s::bigint[]) AS b(digest, run_id) ORDER BY digest, run_id
    ON CONFLICT DO NOTHING"""

_UNDELIVERED = "SELECT EXISTS (SELECT 1 FROM outbox) OR EXISTS (SELECT 1 FROM follow_ups)"
_SPENT = """SELECT key FROM inbox WHERE run_id = %(run)s AND key = ANY(%(keys)s::text[]) AND key IS NOT NULL
    AND body IS NULL"""

_FORGET = """DELETE FROM inbox WHERE run_id = %(run)s AND key = ANY(%(keys)s::text[]) AND key IS NOT NULL
    AND body IS NULL"""


class FamilyVerbs(Begun):
    """Children, and what follows a run's end."""

    def add_follow_ups(self, ids: Sequence[int]) -> None:
        """Write follow-ups that are not there, in order."""
        self._tell(_ADD, ids=longs(ids))

    def follow_ups(self, *, limit: int) -> list[FollowUp]:
        """Return follow-ups, locked."""
        return [FollowUp(*row) for row in self._ask(_OLDEST, limit=limit)]

    def move_follow_ups(self, places: Sequence[FollowUp]) -> None:
        """Move follow-ups on."""
        self._tell(
            _MOVE, ids=longs([place.run_id for place in places]), afters=longs([place.after for place in places])
        )

    def drop_follow_ups(self, ids: Sequence[int]) -> None:
        """Remove follow-ups."""
        self._tell("DELETE FROM follow_ups WHERE run_id = ANY(%(ids)s::bigint[])", ids=longs(ids))

    def backlog(self, *, most: int) -> tuple[int, int]:
        """Count what was not seen to."""
        rows = self._ask(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox LIMIT %(most)s) o),"
            " (SELECT count(*) FROM (SELECT 1 FROM follow_ups LIMIT %(most)s) f)",
            most=most,
        )
        return int(rows[0][0]), int(rows[0][1])

    def undelivered(self) -> bool:
        """Whether there are messages or follow-ups; no lock is asked for, so none is skipped."""
        return bool(self._ask(_UNDELIVERED)[0][0])

    def live_children(self, places: Sequence[FollowUp], *, limit: int) -> list[tuple[int, int]]:
        """Return children that did not end."""
        parents, afters = longs([place.run_id for place in places]), longs([place.after for place in places])
        return [(row[0], row[1]) for row in self._ask(_LIVE, parents=parents, afters=afters, limit=limit)]

    def children(self, parent: int, *, limit: int) -> list[RunRow]:
        """Return the newest children."""
        return [run_row(row) for row in self._ask(_CHILDREN, parent=parent, limit=limit)][::-1]

    def count_children(self, parent: int, *, most: int) -> dict[State, int]:
        """Count children by state."""
        return {State(row[0]): int(row[1]) for row in self._ask(_COUNT, parent=parent, most=most)}

    def count_down(self, waits: Sequence[tuple[int, int, int]]) -> None:
        """Lower what waits need."""
        runs, slots, fewer = ([wait[n] for wait in waits] for n in range(3))
        self._tell(_DOWN, runs=longs(runs), slots=longs(slots), fewer=longs(fewer))

    def spent(self, run: int, keys: Sequence[str]) -> set[str]:
        """Return keys of consumed signals."""
        return {row[0] for row in self._ask(_SPENT, run=run, keys=TextArray([*keys]))}

    def forget_spent(self, run: int, keys: Sequence[str]) -> None:
        """Forget consumed signals."""
        self._tell(_FORGET, run=run, keys=TextArray([*keys]))

    def name_blobs(self, names: Sequence[tuple[bytes, int]]) -> None:
        """Say that runs name blobs, in order."""
        digests = ByteaArray([digest for digest, _ in names])
        self._tell(_NAME, digests=digests, runs=longs([run_id for _, run_id in names]))
