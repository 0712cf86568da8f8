"""Retry policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.core.retry import RetryPolicy
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_700_000_000_000_000


def pause(policy: RetryPolicy, attempt: int, *, spread: float = 0.5, error: str = "OSError") -> float | None:
    """Return the pause after a failed attempt, in seconds."""
    again_at = policy.again_at(attempt=attempt, error=error, now=NOW, spread=spread)
    return None if again_at is None else (again_at - NOW) / 1_000_000


def test_pauses_double_up_to_the_most() -> None:
    """0.2 s, 0.4 s, 0.8 s ... and never more than the most."""
    policy = RetryPolicy(retries=10, most_seconds=1.0)
    assert [pause(policy, attempt) for attempt in (1, 2, 3, 4, 10)] == [0.2, 0.4, 0.8, 1.0, 1.0]


def test_it_gives_up() -> None:
    """After as many tries as it says, and at once for an exception that is listed."""
    policy = RetryPolicy(retries=2, never=("ValueError",))
    assert pause(policy, 2) is not None
    assert pause(policy, 3) is None
    assert pause(policy, 1, error="ValueError") is None
    assert pause(RetryPolicy.NONE, 1) is None


def test_the_thousandth_attempt_is_no_overflow() -> None:
    """A step that is tried for days ends with the most, not with an exception of its own."""
    assert pause(RetryPolicy(retries=5000), 5000) == 60.0


@given(st.integers(1, 50), st.floats(0, 1, exclude_max=True))
def test_the_spread_is_a_tenth(attempt: int, spread: float) -> None:
    """Up to a tenth less or more, the same each time it is asked."""
    policy = RetryPolicy(retries=50)
    plain, spread_out = pause(policy, attempt), pause(policy, attempt, spread=spread)
    assert plain is not None
    assert spread_out is not None
    assert 0.9 * plain - 1e-6 <= spread_out <= 1.1 * plain + 1e-6
    assert spread_out == pause(policy, attempt, spread=spread)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RetryPolicy(retries=-1),
        lambda: RetryPolicy(first_seconds=-0.1),
        lambda: RetryPolicy(factor=0.5),
        lambda: RetryPolicy(most_seconds=-1),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Callable[[], RetryPolicy]) -> None:
    """With the policy in the message and a hint."""
    with pytest.raises(UsageError, match="not a retry policy") as refused:
        wrong()
    assert refused.value.hint
