"""The almanac: which slots a rule has. The only file that knows cron lines, time zones and the nights they change in.

The rule for those nights, for any zone and any change of its clock:

- A cron line that names **hours and minutes** (`30 2 * * *`) means the clock on the wall. A time that does not exist that
  night (02:30 in a spring night) is replaced by the first moment after the gap (03:00); several in one gap are one slot. A
  time that comes twice (01:30 in an autumn night) fires the first time, once.
- A cron line whose hour or minute field begins with `*` (`*/15 * * * *`) **repeats**: it fires whenever the clock on the wall
  fits, so what comes twice fires twice, a gap has no slots, and the spacing is real.
- An **interval** counts real seconds from the moment the schedule was made, whatever clocks show.

cronsim reads the line and walks days and hours without zones; zones are laid over that here, because a slot must be the
same in whatever process and from whatever moment it is looked for.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.schedule import SECOND, Older, Rule, check, delay, most_delay
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

COUNTED = 20_000
"""So many old slots are counted in one look, a second's work at most; whoever wants the rest looks again."""
_KEPT = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - what clocks on walls show has no zone
_MICRO = timedelta(microseconds=1)
_PROBE = 6 * 3600 * SECOND
"""No zone changes its clock there and back within this time."""
_LETTERS = 200
_FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
_HINT = "minute 0-59, hour 0-23, day of month 1-31, month 1-12 or JAN-DEC, day of week 0-7 or SUN-SAT"


def checked(name: str, rule: Rule, *, at: int) -> None:
    """Raise UsageError for a rule that makes no sense: its numbers, its zone, its cron line (which field), no slot ever."""
    check(name, rule)
    zone_of(rule.zone)
    if rule.cron:
        _read(rule.cron)
        if next(slots(rule, since_at=at, after=at), None) is None:
            raise UsageError(f'cron "{rule.cron}" fits no day in the next 50 years', hint=_HINT)


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name. Raises UsageError."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise UsageError(
            f"there is no time zone {name!r}", hint="a name of the IANA database: Europe/Berlin, America/New_York, UTC"
        ) from error


def _read(cron: str) -> None:
    from cronsim import CronSim, CronSimError

    fields = cron.split()
    if len(fields) != len(_FIELDS) or len(cron) > _LETTERS:
        raise UsageError(f'cron "{cron[:_LETTERS]}" has {len(fields)} fields, not the five it takes', hint=_HINT)
    try:
        CronSim(cron, _NAIVE_EPOCH)
    except (CronSimError, ValueError, AssertionError, RecursionError, TypeError) as error:
        raise UsageError(_wrong(cron, fields, str(error)), hint=_HINT) from error


def _wrong(cron: str, fields: list[str], complaint: str) -> str:
    from cronsim import CronSim, CronSimError

    for n, name in enumerate(_FIELDS):
        alone = " ".join(field if m == n else "*" for m, field in enumerate(fields))
        try:
            CronSim(alone, _NAIVE_EPOCH)
        except (CronSimError, ValueError, AssertionError, RecursionError, TypeError):
            return f'cron "{cron}": its {name} "{fields[n]}" makes no sense'
    if "day-of-month" in complaint:
        return f'cron "{cron}": its day-of-month "{fields[2]}" is in no month of "{fields[3]}"'
    return f'cron "{cron}" makes no sense'


def names_times(cron: str) -> bool:
    """Whether a cron line names hours and minutes of the wall's clock, and does not repeat by itself."""
    minute, hour = cron.split()[:2]
    return not minute.startswith("*") and not hour.startswith("*")


def slots(rule: Rule, *, since_at: int, after: int) -> Iterator[int]:
    """Yield a rule's slots later than `after`, in order; `since_at` is from when an interval counts. Microseconds."""
    if rule.every_micros:
        first = since_at + max(1, (after - since_at) // rule.every_micros + 1) * rule.every_micros
        while True:
            yield first
            first += rule.every_micros
    elif names_times(rule.cron):
        yield from _times(rule.cron, zone_of(rule.zone), after)
    else:
        yield from _repeating(rule.cron, zone_of(rule.zone), after)


def _offset(zone: ZoneInfo, at: int) -> int:
    """Return how far the wall's clock is ahead of UTC at a moment."""
    moment = (_EPOCH + timedelta(microseconds=at)).astimezone(zone)
    return (moment.utcoffset() or timedelta()) // _MICRO


def _wall(micros: int) -> datetime:
    return _NAIVE_EPOCH + timedelta(microseconds=micros)


def _walls(cron: str, after: datetime) -> Iterator[int]:
    """Yield what the wall's clock shows at each time of a cron line after `after`, as if clocks never changed."""
    from cronsim import CronSim

    try:
        for wall in CronSim(cron, after):
            yield (wall - _NAIVE_EPOCH) // _MICRO
    except OverflowError:
        return  # the end of the calendar


def _times(cron: str, zone: ZoneInfo, after: int) -> Iterator[int]:
    last = after
    for wall in _walls(cron, _wall(after + _offset(zone, after))):
        at = _first_moment(zone, wall)
        if at > last:
            last = at
            yield at


def _first_moment(zone: ZoneInfo, wall: int) -> int:
    """Return when a wall's clock first shows a time, or the first moment after the gap that swallows it."""
    at = (_wall(wall).replace(tzinfo=zone) - _EPOCH) // _MICRO  # fold 0: the offset from before a change
    if at + _offset(zone, at) == wall:
        return at
    return _change(zone, at - 26 * 3600 * SECOND, at) or at


def _repeating(cron: str, zone: ZoneInfo, after: int) -> Iterator[int]:
    start = after + 1
    while True:  # a stretch of time in which the zone keeps its offset
        offset = _offset(zone, start)
        begin, change = start, None
        for wall in _walls(cron, _wall(start + offset - 1)):
            at = wall - offset
            if at < start:
                continue
            change = _change(zone, begin, at)
            if change is not None:
                break
            yield at
            begin = at
        if change is None:
            return
        start = change


def _change(zone: ZoneInfo, begin: int, end: int) -> int | None:
    """Return the first moment in (begin, end] at which the offset is not what it was, in whole seconds."""
    offset, low = _offset(zone, begin), begin
    while low < end:
        high = min(low + _PROBE, end)
        if _offset(zone, high) != offset:
            return _bisect(zone, low, high, offset)
        low = high
    return None


def _bisect(zone: ZoneInfo, low: int, high: int, offset: int) -> int:
    low, high = low // SECOND, -(-high // SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle * SECOND) == offset:
            low = middle
        else:
            high = middle
    return high * SECOND


def first(name: str, rule: Rule, *, since_at: int, after: int) -> tuple[int, int] | None:
    """Return the next slot after a moment and when it is due; None: there is none any more."""
    at = next(slots(rule, since_at=since_at, after=after), None)
    return None if at is None else (at, at + delay(name, rule, at))


class Due(NamedTuple):
    """Slots that are due: `older` in sum, the newest one by one (moment, due moment), and the first that is not due yet.

    `more`: not even all the old ones were counted; settle these, and look again.
    """

    older: Older | None
    slots: list[tuple[int, int]]
    upcoming: tuple[int, int] | None
    more: bool = False


def due(name: str, rule: Rule, *, since_at: int, first_at: int, now: int, counted: int = COUNTED) -> Due:
    """Return the slots from `first_at` on that are due, in order. Bounded: at most `counted` are looked at."""
    older: Older | None = None
    if rule.every_micros:
        sure = (now - most_delay(rule) - first_at) // rule.every_micros + 1 - _KEPT
        if sure > 0:
            older = Older(first_at, first_at + (sure - 1) * rule.every_micros, sure)
            first_at += sure * rule.every_micros
    kept: list[tuple[int, int]] = []
    for looked, at in enumerate(slots(rule, since_at=since_at, after=first_at - 1)):
        due_at = at + delay(name, rule, at)
        if due_at > now:
            return Due(older, kept, (at, due_at))
        if looked == counted:
            return Due(_summed(older, kept), [], (at, due_at), more=True)
        kept.append((at, due_at))
        if len(kept) > 2 * _KEPT:
            older, kept = _summed(older, kept[:-_KEPT]), kept[-_KEPT:]
    return Due(_summed(older, kept[:-_KEPT]), kept[-_KEPT:], None)


def _summed(older: Older | None, more: list[tuple[int, int]]) -> Older | None:
    if not more:
        return older
    if older is None:
        return Older(more[0][0], more[-1][0], len(more))
    return Older(older.first_at, more[-1][0], older.many + len(more))


def stand_in(rule: Rule, at: int) -> str:
    """Return why a slot is not at a time its cron line names, empty if it is: its own time does not exist that night."""
    if rule.every_micros or not names_times(rule.cron):
        return ""
    zone = zone_of(rule.zone)
    shown, before = at + _offset(zone, at), at - 1 + _offset(zone, at - 1)
    wall = next(_walls(rule.cron, _wall(before)), None)
    if wall is None or wall >= shown:
        return ""
    return f"{_wall(wall):%H:%M} does not exist that day in {rule.zone}; {_wall(shown):%H:%M} stands for it"


_DAYS = ("Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")
_WEEKS = {"*": "daily", "1-5": "weekdays", "MON-FRI": "weekdays", "0,6": "weekends", "6,0": "weekends"}


def sentence(rule: Rule) -> str:
    """Return a rule as people say it: `weekdays at 09:00 Europe/Berlin`, `every 15 minutes`."""
    return _interval(rule.every_micros // SECOND) if rule.every_micros else f"{_spoken(rule.cron)} {rule.zone}"


def _interval(seconds: int) -> str:
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds % size == 0:
            count = seconds // size
            return f"every {word}" if count == 1 else f"every {count:,} {word}s"
    raise AssertionError(f"an interval of {seconds} seconds")


def _spoken(cron: str) -> str:
    minute, hour, day, month, week = cron.upper().split()
    if minute.startswith("*/") and minute[2:].isdigit() and {hour, day, month, week} == {"*"}:
        return f"every {int(minute[2:])} minutes"
    if minute.isdigit() and hour.isdigit() and (day, month) == ("*", "*"):
        days = _DAYS[int(week)] if week.isdigit() else _WEEKS.get(week)
        if days is not None:
            return f"{days} at {int(hour):02}:{int(minute):02}"
    from cronsim import CronSim

    text = CronSim(cron, _NAIVE_EPOCH).explain()
    return text[0].lower() + text[1:]


def shown(zone: ZoneInfo, at: int) -> str:
    """Return a moment as the wall's clock of a zone shows it, ISO 8601 with its offset."""
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone).isoformat()
