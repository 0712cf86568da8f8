"""Moments and durations as torpor keeps them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor import clock


@given(st.integers(-(2**55), 2**57))
def test_a_moment_comes_back(at: int) -> None:
    """To the microsecond, far into the past and the future."""
    assert clock.as_micros(clock.as_datetime(at)) == at


@given(st.datetimes(timezones=st.just(timezone(timedelta(hours=5, minutes=45)))))
def test_a_zone_is_only_a_way_of_writing(moment: datetime) -> None:
    """The same moment, in UTC."""
    assert clock.as_datetime(clock.as_micros(moment)) == moment


def test_the_epoch() -> None:
    """Zero is 1970, in UTC."""
    assert clock.as_datetime(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert clock.as_micros(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == 0


def test_a_naive_moment_is_refused() -> None:
    """Nobody can know which one it means."""
    with pytest.raises(ValueError, match="no time zone"):
        clock.as_micros(datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake itself


def test_durations() -> None:
    """Rounded to whole microseconds."""
    assert clock.micros(1.5) == 1_500_000
    assert clock.micros(0.1 + 0.2) == 300_000
    assert clock.micros(0.4e-6) == 0


def test_clocks_go_on() -> None:
    """The wall clock is in this century, the other never steps back."""
    assert clock.wall() > clock.as_micros(datetime(2020, 1, 1, tzinfo=UTC))
    first = clock.monotonic()
    assert clock.monotonic() >= first
