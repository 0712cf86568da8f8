"""Verbs about schedules and the fates of their slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import ScheduleRow, SlotRow


class ScheduleVerbs(Protocol):
    """Schedules and slots."""

    def insert_schedules(self, rows: Sequence[ScheduleRow]) -> set[str]:
        """Write schedules whose names are free (their `id` is given here); return the names that were."""

    def get_schedules(
        self, names: Sequence[str], *, lock: bool = False, skip_locked: bool = False
    ) -> dict[str, ScheduleRow]:
        """Return schedules by name; with `lock`, locked in order of their names until the transaction ends."""

    def list_schedules(self, *, after: str, limit: int) -> list[ScheduleRow]:
        """Return schedules in order of their names."""

    def due_schedules(self, *, before: int, limit: int) -> list[ScheduleRow]:
        """Return schedules whose next slot is due at a moment, earliest first."""

    def next_slot_due(self) -> int | None:
        """Return when the next slot of any schedule is due."""

    def change_schedules(self, rows: Sequence[ScheduleRow]) -> None:
        """Overwrite schedules this transaction has locked, all but name and `created_at`."""

    def drop_schedules(self, ids: Sequence[int]) -> None:
        """Remove schedules and what is known of their slots."""

    def add_slots(self, rows: Sequence[SlotRow]) -> None:
        """Write the fates of slots; a slot has one (the table's key)."""

    def newest_slots(self, ids: Sequence[int], *, limit: int) -> dict[int, list[SlotRow]]:
        """Return the newest slots of each schedule, newest first."""
