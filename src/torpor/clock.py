"""The only file that asks the machine for the time (`rouse`, which stands alone, excepted).

Inside torpor a moment is an `int`: microseconds since the epoch, UTC. It compares exactly, is the same in both stores,
and costs nothing to carry. People see datetimes; `as_datetime` and `as_micros` are the border.

What a run believes about time comes from its store's clock (`Tx.now`), never from here: one clock per database.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def wall() -> int:
    """Return the host's wall clock in microseconds UTC. It may step."""
    return time.time_ns() // 1_000


def monotonic() -> float:
    """Return seconds on a clock that never steps back and, on Linux, stands still while the machine is suspended."""
    return time.monotonic()


def as_datetime(at: int) -> datetime:
    """Return the aware datetime (UTC) of a moment in microseconds."""
    return _EPOCH + timedelta(microseconds=at)


def as_micros(moment: datetime) -> int:
    """Return the microseconds of an aware datetime.

    Raises ValueError for a naive one: nobody can know which moment it means.
    """
    if moment.tzinfo is None:
        message = f"{moment!r} has no time zone"
        raise ValueError(message)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def micros(seconds: float) -> int:
    """Return a duration in seconds as whole microseconds."""
    return round(seconds * SECOND)
