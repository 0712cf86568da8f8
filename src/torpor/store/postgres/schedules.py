"""Verbs on PostgreSQL: schedules and slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.schedule import Fate
from torpor.store import texts
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.rows import ScheduleRow, SlotRow

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = """id, name, program, rule, body, tenant, prio, revision, created_at, changed_at, since_at, next_at, due_at,
    paused_at, paused_by"""
_GIVEN = """unnest(%(ids)s::bigint[], %(names)s::text[], %(programs)s::text[], %(rules)s::text[], %(bodies)s::bytea[],
    %(tenants)s::text[], %(prios)s::int[], %(revisions)s::int[], %(createds)s::bigint[], %(changeds)s::bigint[],
    %(sinces)s::bigint[], %(nexts)s::bigint[], %(dues)s::bigint[], %(pauseds)s::bigint[], %(bys)s::text[])
    AS s(id, name, program, rule, body, tenant, prio, revision, created_at, changed_at, since_at, next_at, due_at,
    paused_at, paused_by)"""
_REST = _COLUMNS.removeprefix("id, ")
_INSERT = f"""INSERT INTO schedules ({_REST}) SELECT {_REST} FROM {_GIVEN} ORDER BY name
    ON CONFLICT (name) DO NOTHING RETURNING name"""
_CHANGE = f"""UPDATE schedules t SET program = s.program, rule = s.rule, body = s.body, tenant = s.tenant, prio = s.prio,
    revision = s.revision, changed_at = s.changed_at, since_at = s.since_at, next_at = s.next_at, due_at = s.due_at,
    paused_at = s.paused_at, paused_by = s.paused_by FROM (SELECT * FROM {_GIVEN}) s WHERE t.id = s.id"""
_DROP = """WITH gone AS (DELETE FROM slots WHERE schedule = ANY(%(ids)s::bigint[]))
    DELETE FROM schedules WHERE id = ANY(%(ids)s::bigint[])"""
_SLOT_COLUMNS = "schedule, slot_at, last_at, at, many, fate, reason, run_id, extra"
_ADD_SLOTS = f"""INSERT INTO slots ({_SLOT_COLUMNS}) SELECT * FROM unnest(%(schedules)s::bigint[], %(slots)s::bigint[],
    %(lasts)s::bigint[], %(ats)s::bigint[], %(manys)s::bigint[], %(fates)s::smallint[], %(reasons)s::text[],
    %(runs)s::bigint[], %(extras)s::smallint[])"""
_NEWEST = f"""SELECT s.* FROM unnest(%(ids)s::bigint[]) AS i(id), LATERAL (SELECT {_SLOT_COLUMNS} FROM slots
    WHERE schedule = i.id ORDER BY slot_at DESC LIMIT %(limit)s) s"""


def _slot(row: Sequence[Any]) -> SlotRow:
    return SlotRow._make((*row[:5], Fate(row[5]), row[6], row[7], bool(row[8])))


def _given(rows: Sequence[ScheduleRow]) -> dict[str, Any]:
    texts.check(
        (text for r in rows for text in (r.name, r.program, r.rule, r.tenant, r.paused_by)), "a schedule's definition"
    )
    return {
        "ids": longs([r.id for r in rows]),
        "names": TextArray([r.name for r in rows]),
        "programs": TextArray([r.program for r in rows]),
        "rules": TextArray([r.rule for r in rows]),
        "bodies": ByteaArray([r.body for r in rows]),
        "tenants": TextArray([r.tenant for r in rows]),
        "prios": longs([r.priority for r in rows]),
        "revisions": longs([r.revision for r in rows]),
        "createds": longs([r.created_at for r in rows]),
        "changeds": longs([r.changed_at for r in rows]),
        "sinces": longs([r.since_at for r in rows]),
        "nexts": longs([r.next_at for r in rows]),
        "dues": longs([r.due_at for r in rows]),
        "pauseds": longs([r.paused_at for r in rows]),
        "bys": TextArray([r.paused_by for r in rows]),
    }


class ScheduleVerbs(Begun):
    """Schedules and slots."""

    def insert_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        """Write schedules whose names are free, in order, so that two who write never wait for each other."""
        return {row[0] for row in self._ask(_INSERT, **_given(rows))}

    def get_schedules(
        self, names: Sequence[str], *, lock: bool = False, skip_locked: bool = False
    ) -> dict[str, ScheduleRow]:
        """Return schedules; locked in order of their names."""
        how = ("FOR UPDATE SKIP LOCKED" if skip_locked else "FOR UPDATE") if lock else ""
        statement = f"SELECT {_COLUMNS} FROM schedules WHERE name = ANY(%(names)s::text[]) ORDER BY name {how}"
        return {row[1]: ScheduleRow._make(row) for row in self._ask(statement, names=TextArray(names))}

    def list_schedules(self, *, after: str, limit: int) -> list[ScheduleRow]:
        """Return schedules by name."""
        statement = f"SELECT {_COLUMNS} FROM schedules WHERE name > %(after)s ORDER BY name LIMIT %(limit)s"
        return [ScheduleRow._make(row) for row in self._ask(statement, after=after, limit=limit)]

    def due_schedules(self, *, before: int, limit: int) -> list[ScheduleRow]:
        """Return due schedules, earliest first."""
        statement = f"""SELECT {_COLUMNS} FROM schedules WHERE due_at IS NOT NULL AND due_at <= %(before)s
            ORDER BY due_at LIMIT %(limit)s"""
        return [ScheduleRow._make(row) for row in self._ask(statement, before=before, limit=limit)]

    def next_slot_due(self) -> int | None:
        """Return when the next slot is due."""
        rows = self._ask("SELECT min(due_at) FROM schedules WHERE due_at IS NOT NULL")
        return None if rows[0][0] is None else int(rows[0][0])

    def change_schedules(self, rows: Sequence[ScheduleRow]) -> None:
        """Overwrite schedules."""
        self._tell(_CHANGE, **_given(rows))

    def drop_schedules(self, ids: Sequence[int]) -> None:
        """Remove schedules and their slots."""
        self._tell(_DROP, ids=longs(ids))

    def add_slots(self, rows: Sequence[SlotRow]) -> None:
        """Write the fates of slots."""
        self._tell(
            _ADD_SLOTS,
            schedules=longs([r.schedule for r in rows]),
            slots=longs([r.slot_at for r in rows]),
            lasts=longs([r.last_at for r in rows]),
            ats=longs([r.at for r in rows]),
            manys=longs([r.many for r in rows]),
            fates=longs([r.fate for r in rows]),
            reasons=TextArray([texts.title(r.reason) for r in rows]),
            runs=longs([r.run_id for r in rows]),
            extras=longs([r.extra for r in rows]),
        )

    def newest_slots(self, ids: Sequence[int], *, limit: int) -> dict[int, list[SlotRow]]:
        """Return the newest slots of each schedule."""
        found: dict[int, list[SlotRow]] = {number: [] for number in ids}
        for row in self._ask(_NEWEST, ids=longs(ids), limit=limit):
            found[row[0]].append(_slot(row))
        return found
