"""Verbs on SQLite: schedules and slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.schedule import Fate
from torpor.store import texts
from torpor.store.rows import ScheduleRow, SlotRow
from torpor.store.sqlite.begun import Begun

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = """id, name, program, rule, body, tenant, prio, revision, created_at, changed_at, since_at, next_at, due_at,
    paused_at, paused_by"""
_INSERT = """INSERT INTO schedules (name, program, rule, body, tenant, prio, revision, created_at, changed_at, since_at,
    next_at, due_at, paused_at, paused_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_CHANGE = """UPDATE schedules SET program = ?, rule = ?, body = ?, tenant = ?, prio = ?, revision = ?, changed_at = ?,
    since_at = ?, next_at = ?, due_at = ?, paused_at = ?, paused_by = ? WHERE id = ?"""
_SLOT_COLUMNS = "schedule, slot_at, last_at, at, many, fate, reason, run_id, extra"


def _slot(row: Sequence[Any]) -> SlotRow:
    return SlotRow._make((*row[:5], Fate(row[5]), row[6], row[7], bool(row[8])))


class ScheduleVerbs(Begun):
    """Schedules and slots."""

    def insert_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        """Write schedules whose names are free."""
        texts.check((text for r in rows for text in (r.name, r.program, r.rule, r.tenant)), "a schedule's definition")
        return {row.name for row in rows if self._db.execute(_INSERT, row[1:]).rowcount == 1}

    def get_schedules(
        self, names: Sequence[str], *, lock: bool = False, skip_locked: bool = False
    ) -> dict[str, ScheduleRow]:
        """Return schedules; the one writer of SQLite needs no row locks."""
        del lock, skip_locked
        rows = self._many(f"SELECT {_COLUMNS} FROM schedules WHERE name IN", names)  # type: ignore[arg-type] # texts, too
        return {row[1]: ScheduleRow._make(row) for row in rows}

    def list_schedules(self, *, after: str, limit: int) -> list[ScheduleRow]:
        """Return schedules by name."""
        statement = f"SELECT {_COLUMNS} FROM schedules WHERE name > ? ORDER BY name LIMIT ?"
        return [ScheduleRow._make(row) for row in self._db.execute(statement, (after, limit))]

    def due_schedules(self, *, before: int, limit: int) -> list[ScheduleRow]:
        """Return due schedules, earliest first."""
        statement = f"SELECT {_COLUMNS} FROM schedules WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY due_at LIMIT ?"
        return [ScheduleRow._make(row) for row in self._db.execute(statement, (before, limit))]

    def next_slot_due(self) -> int | None:
        """Return when the next slot is due."""
        row = self._db.execute("SELECT min(due_at) FROM schedules WHERE due_at IS NOT NULL").fetchone()
        return None if row[0] is None else int(row[0])

    def change_schedules(self, rows: Sequence[ScheduleRow]) -> None:
        """Overwrite schedules."""
        texts.check(
            (text for r in rows for text in (r.program, r.rule, r.tenant, r.paused_by)), "a schedule's definition"
        )
        self._db.executemany(_CHANGE, [(*row[2:8], *row[9:], row.id) for row in rows])

    def drop_schedules(self, ids: Sequence[int]) -> None:
        """Remove schedules and their slots."""
        self._db.executemany("DELETE FROM slots WHERE schedule = ?", [(number,) for number in ids])
        self._db.executemany("DELETE FROM schedules WHERE id = ?", [(number,) for number in ids])

    def add_slots(self, rows: Sequence[SlotRow]) -> None:
        """Write the fates of slots."""
        self._db.executemany(
            f"INSERT INTO slots ({_SLOT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*row[:6], texts.title(row.reason), row.run_id, int(row.extra)) for row in rows],
        )

    def newest_slots(self, ids: Sequence[int], *, limit: int) -> dict[int, list[SlotRow]]:
        """Return the newest slots of each schedule."""
        statement = f"SELECT {_SLOT_COLUMNS} FROM slots WHERE schedule = ? ORDER BY slot_at DESC LIMIT ?"
        return {number: [_slot(row) for row in self._db.execute(statement, (number, limit))] for number in ids}
