"""Slots of cron lines and intervals, held against looking at every minute; nights in which clocks change; what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torpor import almanac
from torpor.core.schedule import SECOND, Rule
from torpor.errors import UsageError

NEW_YORK = "America/New_York"
ZONES = (
    "UTC",
    NEW_YORK,
    "Europe/Berlin",
    "Australia/Lord_Howe",  # changes by half an hour
    "Antarctica/Troll",  # changes by two hours
    "America/Havana",  # changes at midnight
    "America/Sao_Paulo",
    "Africa/Casablanca",  # changes twice within weeks
    "Asia/Kathmandu",
    "Pacific/Apia",  # left out a whole day in 2011
    "Africa/Cairo",
)
YEARS = (2011, 2014, 2018, 2024, 2027)
MINUTES = 60 * SECOND


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    """Return a moment of UTC."""
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()) * SECOND


def walls(moments: list[int], zone: str) -> list[str]:
    """Return what the wall's clock shows at moments, with its offset."""
    return [datetime.fromtimestamp(moment / SECOND, ZoneInfo(zone)).strftime("%d %H:%M %z") for moment in moments]


def some(rule: Rule, after: int, count: int) -> list[int]:
    """Return the next slots."""
    return list(islice(almanac.slots(rule, since_at=after, after=after), count))


def matches(field: str, value: int, low: int, high: int) -> bool:
    """Whether a number is in a field of numbers, ranges and steps."""
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin, end = (low, high) if span == "*" else (int(first), int(last or first))
        if begin <= value <= (high if step and not last and span != "*" else end) and not (value - begin) % int(
            step or 1
        ):
            return True
    return False


def fits(cron: str, wall: datetime) -> bool:
    """Whether a wall's clock fits a cron line: days by either field if both are restricted."""
    minute, hour, day, month, week = cron.split()
    by_day = matches(day, wall.day, 1, 31)
    by_week = matches(week, wall.isoweekday() % 7, 0, 6)
    days = by_day and by_week if day.startswith("*") or week.startswith("*") else by_day or by_week
    return (
        days
        and matches(month, wall.month, 1, 12)
        and matches(hour, wall.hour, 0, 23)
        and matches(minute, wall.minute, 0, 59)
    )


def every_minute(cron: str, zone: ZoneInfo, after: int, until: int) -> list[int]:
    """Return the slots in (after, until], by looking at every minute of real time and every minute of the wall."""
    real = range((after // MINUTES + 1) * MINUTES, until + 1, MINUTES)
    shown = {moment: datetime.fromtimestamp(moment // SECOND, UTC).astimezone(zone) for moment in real}
    if not almanac.names_times(cron):
        return [moment for moment, wall in shown.items() if fits(cron, wall)]
    found = set()
    seen = {wall.replace(tzinfo=None, fold=0) for wall in shown.values()}
    for moment, wall in shown.items():
        if fits(cron, wall) and not wall.fold:
            found.add(moment)
    for before, later in pairwise(shown.values()):
        minute = before.replace(tzinfo=None, fold=0) + timedelta(minutes=1)
        while minute < later.replace(tzinfo=None, fold=0):  # a gap: these times are on no wall
            if fits(cron, minute) and minute not in seen:
                found.add(int(later.timestamp()) * SECOND)
            minute += timedelta(minutes=1)
    return sorted(found)


@st.composite
def crons(draw: st.DrawFn) -> str:
    """Return a cron line that has slots within days."""
    minute = draw(st.sampled_from(["0", "30", "*/15", "7,37", "59", "*/40", "0-10/5", "*"]))
    hour = draw(st.sampled_from(["*", "0", "1", "2", "3", "1,2", "0-4", "*/2", "23", "*/5"]))
    day = draw(st.sampled_from(["*", "*", "*", "1-15", "*/2", "13"]))
    week = draw(st.sampled_from(["*", "*", "*", "0", "1-5", "*/2"]))
    return f"{minute} {hour} {day} * {week}"


def changes(zone: str, year: int) -> list[int]:
    """Return the hours of a year before which a zone's clock changed, or its first hour."""
    hours = range(at(year, 1, 1), at(year + 1, 1, 1), 3600 * SECOND)
    offsets = [datetime.fromtimestamp(hour // SECOND, ZoneInfo(zone)).utcoffset() for hour in hours]
    return [hours[n] for n in range(1, len(hours)) if offsets[n] != offsets[n - 1]] or [hours[0]]


CHANGES = {(zone, year): changes(zone, year) for zone in ZONES for year in YEARS}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(crons(), st.sampled_from(sorted(CHANGES)), st.integers(0, 3), st.integers(-30 * 60, 10 * 60), st.integers(0, 59))
def test_slots_are_what_every_minute_says(
    cron: str, place: tuple[str, int], which: int, minutes: int, seconds: int
) -> None:
    """For any zone, any change of its clock and any moment to begin at: no slot too many, none too few, in order."""
    zone, around = place[0], CHANGES[place]
    after = around[which % len(around)] + minutes * MINUTES + seconds * SECOND
    until = after + 52 * 60 * MINUTES
    expected = every_minute(cron, ZoneInfo(zone), after - 60 * 60 * MINUTES, until)
    found = []
    for moment in almanac.slots(Rule(cron=cron, zone=zone), since_at=0, after=after):
        if moment > until:
            break
        found.append(moment)
    assert walls(found, zone) == walls([moment for moment in expected if moment > after], zone)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(crons(), st.sampled_from(sorted(CHANGES)), st.integers(-40, 20))
def test_slots_do_not_depend_on_where_one_begins(cron: str, place: tuple[str, int], hours: int) -> None:
    """Two schedulers that look from different moments see the same slots."""
    after = CHANGES[place][0] + hours * 60 * MINUTES
    found = some(Rule(cron=cron, zone=place[0]), after, 12)
    again = [some(Rule(cron=cron, zone=place[0]), before, 1)[0] for before in [after, *found[:-1]]]
    assert again == found
    assert all(a < b for a, b in pairwise(found))


def test_a_spring_night() -> None:
    """02:30 does not exist: 03:00 stands for it, and says so. Repeating lines keep their spacing."""
    daily = Rule(cron="30 2 * * *", zone=NEW_YORK)
    found = some(daily, at(2027, 3, 13, 5), 3)
    assert walls(found, NEW_YORK) == ["13 02:30 -0500", "14 03:00 -0400", "15 02:30 -0400"]
    reasons = [almanac.stand_in(daily, moment) for moment in found]
    assert reasons == ["", "02:30 does not exist that day in America/New_York; 03:00 stands for it", ""]
    quarters = some(Rule(cron="*/15 * * * *", zone=NEW_YORK), at(2027, 3, 14, 6, 30), 4)
    assert walls(quarters, NEW_YORK) == ["14 01:45 -0500", "14 03:00 -0400", "14 03:15 -0400", "14 03:30 -0400"]
    assert {b - a for a, b in pairwise(quarters)} == {15 * MINUTES}


def test_an_autumn_night() -> None:
    """01:30 comes twice and fires once, the first time; every quarter of an hour goes on every quarter of an hour."""
    found = some(Rule(cron="30 1 * * *", zone=NEW_YORK), at(2027, 11, 6, 4), 3)
    assert walls(found, NEW_YORK) == ["06 01:30 -0400", "07 01:30 -0400", "08 01:30 -0500"]
    quarters = some(Rule(cron="*/15 * * * *", zone=NEW_YORK), at(2027, 11, 7, 4), 12)
    assert {b - a for a, b in pairwise(quarters)} == {15 * MINUTES}


def test_a_day_that_was_left_out() -> None:
    """Samoa had no 30 December 2011: its slot is at the first moment after."""
    found = some(Rule(cron="30 2 * * *", zone="Pacific/Apia"), at(2011, 12, 29), 3)
    assert walls(found, "Pacific/Apia") == ["29 02:30 -1000", "31 00:00 +1400", "31 02:30 +1400"]


def test_intervals_count_real_seconds() -> None:
    """From when they were made, whatever any clock shows, from any moment."""
    rule = Rule(every_micros=90 * MINUTES)
    since_at = at(2027, 3, 14, 5, 10)
    found = list(islice(almanac.slots(rule, since_at=since_at, after=since_at + 1), 3))
    assert found == [since_at + n * 90 * MINUTES for n in (1, 2, 3)]
    assert next(almanac.slots(rule, since_at=since_at, after=found[1])) == found[2]


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("61 9 * * *", 'its minute "61" makes no sense'),
        ("0 24 * * *", 'its hour "24" makes no sense'),
        ("0 9 32 * *", 'its day-of-month "32" makes no sense'),
        ("0 9 * FOO *", 'its month "FOO" makes no sense'),
        ("0 9 * * 8", 'its day-of-week "8" makes no sense'),
        ("0 9 30 2 *", 'its day-of-month "30" is in no month of "2"'),
        ("0 9 31 4,6 *", 'its day-of-month "31" is in no month of "4,6"'),
        ("0 9 * *", "has 4 fields, not the five it takes"),
        ("0 0 9 * * *", "has 6 fields, not the five it takes"),
        ("*/0 * * * *", 'its minute "[*]/0" makes no sense'),
        ("5-1 * * * *", 'its minute "5-1" makes no sense'),
        ("9" * 5000 + " * * * *", "has 5 fields|fields, not the five"),
    ],
)
def test_malformed_lines_name_the_field(cron: str, message: str) -> None:
    """A line that makes no sense, or fits no date, is refused with the field."""
    with pytest.raises(UsageError, match=message):
        almanac.checked("s", Rule(cron=cron), at=0)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789*/-,#LWMON ", max_size=20))
def test_no_line_breaks_anything(cron: str) -> None:
    """Whatever is typed is a rule or a UsageError."""
    try:
        almanac.checked("s", Rule(cron=cron), at=at(2027, 1, 1))
    except UsageError:
        return
    assert some(Rule(cron=cron), at(2027, 1, 1), 1)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "Europe/Berlin ", "EUROPE", "\0"])
def test_unknown_zones_are_refused(zone: str) -> None:
    """Only names of the IANA database."""
    with pytest.raises(UsageError, match="there is no time zone"):
        almanac.checked("s", Rule(cron="0 9 * * *", zone=zone), at=0)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (Rule(cron="0 9 * * 1-5", zone="Europe/Berlin"), "weekdays at 09:00 Europe/Berlin"),
        (Rule(cron="30 2 * * *"), "daily at 02:30 UTC"),
        (Rule(cron="5 18 * * 0"), "Sundays at 18:05 UTC"),
        (Rule(cron="*/15 * * * *"), "every 15 minutes UTC"),
        (Rule(cron="0 9 1 * *"), "at 09:00 on the first day of every month UTC"),
        (Rule(every_micros=900 * SECOND), "every 15 minutes"),
        (Rule(every_micros=86_400 * SECOND), "every day"),
        (Rule(every_micros=5400 * SECOND), "every 90 minutes"),
    ],
)
def test_sentences(rule: Rule, sentence: str) -> None:
    """A rule as people say it."""
    assert almanac.sentence(rule) == sentence


def test_a_long_absence_is_bounded() -> None:
    """Of many due slots the newest are kept one by one, the others are counted; what is not counted yet comes next."""
    now = at(2027, 1, 1)
    found = almanac.due("s", Rule(every_micros=SECOND), since_at=0, first_at=at(2020, 1, 1), now=now)
    assert found.older is not None
    assert found.older.many + len(found.slots) == (now - at(2020, 1, 1)) // SECOND + 1
    assert found.upcoming == (now + SECOND, now + SECOND)
    rule = Rule(cron="* * * * *")
    first_at = now - 9_999 * MINUTES
    found = almanac.due("s", rule, since_at=0, first_at=first_at, now=now)
    assert found.older is not None
    assert found.older.first_at == first_at
    assert found.older.many + len(found.slots) == 10_000
    part = almanac.due("s", rule, since_at=0, first_at=first_at, now=now, counted=4_000)
    assert part.more
    assert part.older is not None
    assert part.upcoming is not None
    assert (part.older.many, part.slots, part.upcoming[0]) == (4_000, [], first_at + 4_000 * MINUTES)
