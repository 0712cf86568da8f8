"""What people read about schedules: when, what next, and what became of the last slots; and which are in trouble (G13)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from torpor import almanac
from torpor.core.ids import run_name
from torpor.core.schedule import Fate, delay
from torpor.engine.schedules import find, rule_of
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.schedule import Rule
    from torpor.store.protocol import Tx
    from torpor.store.rows import ScheduleRow, SlotRow

NEXT = 3
SHOWN = 40
OVERDUE_MICROS = 10_000_000
"""A slot so long past its moment has nobody to fire it."""
_MOST = 100


@dataclass(frozen=True, slots=True)
class SlotLine:
    """A slot, or `many` of them up to `last_at`, and its fate with the reason. `extra`: a person asked for it."""

    slot_at: int
    last_at: int
    many: int
    fate: str
    sign: str
    reason: str
    run: str | None
    extra: bool


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A schedule: what it says, if it is `on`, `paused`, `overdue` or `over`, what comes, its last slots, oldest first."""

    schedule: str
    program: str
    says: str
    zone: str
    missed: str
    state: str
    reason: str
    next_at: int | None
    upcoming: list[str]
    """The next slots in the schedule's own zone, ISO 8601; the first is `next_at`."""
    slots: list[SlotLine]

    @property
    def strip(self) -> str:
        """Return the last slots as letters: `#` fired, `-` skipped, `+` coalesced, `x` failed to start."""
        return "".join(slot.sign for slot in self.slots)


def schedule_lines(tx: Tx, *, after: str = "", limit: int = _MOST, shown: int = SHOWN) -> list[ScheduleLine]:
    """Return schedules in order of their names, a bounded number."""
    return _lines(tx, tx.list_schedules(after=after, limit=limit), shown)


def schedule_line(tx: Tx, name: str, *, shown: int = SHOWN) -> ScheduleLine:
    """Return one schedule. Raises NotFound."""
    return _lines(tx, [find(tx, name)], shown)[0]


def _lines(tx: Tx, rows: Sequence[ScheduleRow], shown: int) -> list[ScheduleLine]:
    slots = tx.newest_slots([row.id for row in rows], limit=shown) if rows else {}
    now = tx.now()
    return [_line(row, slots[row.id], now) for row in rows]


def _line(row: ScheduleRow, slots: Sequence[SlotRow], now: int) -> ScheduleLine:
    rule = rule_of(row)
    state, reason = _state(row, now)
    try:
        says, upcoming = almanac.sentence(rule), _upcoming(row, rule, now)
    except UsageError as error:  # this machine does not know the zone: everything else is still worth reading
        says, upcoming, state, reason = rule.cron, [], "overdue", error.message
    last = [
        SlotLine(
            slot.slot_at,
            slot.last_at,
            slot.many,
            slot.fate.word,
            slot.fate.sign,
            slot.reason,
            None if slot.run_id is None else run_name(row.program, slot.run_id),
            slot.extra,
        )
        for slot in reversed(slots)
    ]
    return ScheduleLine(
        row.name,
        row.program,
        says,
        rule.zone,
        rule.missed.value,
        state,
        reason,
        None if row.paused_at is not None else row.next_at,
        upcoming,
        last,
    )


def _state(row: ScheduleRow, now: int) -> tuple[str, str]:
    if row.paused_at is not None:
        return "paused", f"by {row.paused_by}" if row.paused_by else ""
    if row.due_at is None:
        return "over", "it has no slot any more"
    if row.due_at <= now - OVERDUE_MICROS:
        return "overdue", "no waker fires it: torpor worker APP.py"
    return "on", ""


def _upcoming(row: ScheduleRow, rule: Rule, now: int) -> list[str]:
    if row.paused_at is not None or row.next_at is None:
        return []
    zone = almanac.zone_of(rule.zone)
    after = max(row.next_at - 1, now - delay(row.name, rule, row.next_at)) if row.due_at else now
    return [almanac.shown(zone, at) for at in islice(almanac.slots(rule, since_at=row.since_at, after=after), NEXT)]


@dataclass(frozen=True, slots=True)
class ScheduleTrouble:
    """A schedule that nobody fires (`since_at`: since when), or whose last slot failed to start, with the reason."""

    schedule: str
    trouble: str
    since_at: int
    reason: str


def troubled(tx: Tx, *, limit: int = _MOST) -> list[ScheduleTrouble]:
    """Return schedules that are overdue or fail to start, a bounded number (G13)."""
    now = tx.now()
    late = [
        ScheduleTrouble(row.name, "overdue", row.due_at or now, "no waker fires it")
        for row in tx.due_schedules(before=now - OVERDUE_MICROS, limit=limit)
    ]
    rows = tx.list_schedules(after="", limit=limit)
    last = tx.newest_slots([row.id for row in rows], limit=1) if rows else {}
    failed = [
        ScheduleTrouble(row.name, "failed", slot.at, slot.reason)
        for row in rows
        for slot in last[row.id]
        if slot.fate is Fate.FAILED
    ]
    return [*late, *failed]
