"""Moments as people read them, in the machine's own time zone."""

from __future__ import annotations

from torpor import clock

_DAY = 86_400 * clock.SECOND
_WEEK_DAYS = 7


def clock_time(at: int) -> str:
    """Return the time of day, `09:12:04`."""
    return clock.as_datetime(at).astimezone().strftime("%H:%M:%S")


def moment(at: int, now: int) -> str:
    """Return a moment near `now`: `17:00`, `tomorrow 07:00`, `Fri 07:00`, `12 Dec 07:00`; with seconds within the hour."""
    there, here = clock.as_datetime(at).astimezone(), clock.as_datetime(now).astimezone()
    time = there.strftime("%H:%M:%S" if abs(at - now) < 3600 * clock.SECOND else "%H:%M")
    days = (there.date() - here.date()).days
    if days == 0:
        return time
    if days == 1:
        return f"tomorrow {time}"
    if abs(days) < _WEEK_DAYS:
        return f"{there:%a} {time}"
    return f"{there.day} {there:%b} {time}" if there.year == here.year else f"{there.day} {there:%b %Y}"


def stamp(at: int, *, same_day: bool) -> str:
    """Return when an entry was written: the time of day if all are of one day, else the week day or date with it."""
    there = clock.as_datetime(at).astimezone()
    return there.strftime("%H:%M:%S") if same_day else there.strftime("%d %b %H:%M")


def one_day(moments: list[int]) -> bool:
    """Whether moments lie on one day here."""
    return len({clock.as_datetime(at).astimezone().date() for at in moments}) <= 1
