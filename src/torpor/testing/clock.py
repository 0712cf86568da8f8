"""A clock that moves when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from torpor.clock import as_datetime, as_micros, micros


class MovedClock(Protocol):
    """What a lab asks of the clock of the store it is given."""

    def now(self) -> int:
        """Return the moment, in microseconds UTC."""

    def advance(self, seconds: float) -> int:
        """Move on and return the new moment."""


class Clock:
    """A store's clock in your hands. It stands still until `advance`; nothing in a lab asks the machine for the time."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        """Begin at a moment with a time zone."""
        self._at = as_micros(start)

    def now(self) -> int:
        """Return the moment, in microseconds UTC."""
        return self._at

    def advance(self, seconds: float) -> int:
        """Move on, or back with a negative number, and return the new moment."""
        self._at += micros(seconds)
        return self._at

    def __repr__(self) -> str:
        """Show the moment."""
        return f"<Clock {as_datetime(self._at).isoformat()}>"


def seconds_in(duration: float | timedelta) -> float:
    """Return a duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration
