"""Money: decimals become whole micro-units, and nothing else does."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from torpor.core.money import MOST, decimal_of, dollars, micros_of
from torpor.errors import UsageError


@pytest.mark.parametrize(
    ("amount", "micros"),
    [
        (Decimal("0.20"), 200_000),
        ("1.5", 1_500_000),
        (3, 3_000_000),
        (Decimal(0), 0),
        ("0.0000001", 1),
        ("1.0000001", 1_000_001),
        ("1e9", MOST),
    ],
)
def test_decimals_become_micro_units(amount: object, micros: int) -> None:
    """A fraction of a micro-unit counts as one: nothing is free."""
    assert micros_of(amount, "it") == micros


@pytest.mark.parametrize("amount", [0.2, True, None, "much", "", "NaN", "Infinity", -1, "-0.01", Decimal("1e10"), b"1"])
def test_what_is_no_amount_is_refused(amount: object) -> None:
    """A float is refused like any other wrong amount: 0.1 + 0.2 is not 0.3."""
    with pytest.raises(UsageError, match="it is"):
        micros_of(amount, "it")


def test_nothing_may_be_refused() -> None:
    """A limit or a raise of nothing makes no sense."""
    with pytest.raises(UsageError, match="more than nothing"):
        micros_of("0", "it", positive=True)


@given(some.integers(0, MOST))
def test_micro_units_come_back(micros: int) -> None:
    """As a decimal they are the same amount."""
    assert micros_of(decimal_of(micros), "it") == micros


def test_dollars_are_read_by_people() -> None:
    """At least two decimals, no more than needed, thousands apart."""
    assert [dollars(n) for n in (5_000_000, 120_000, 15, -2_500_000, 1_234_000_000)] == [
        "$5.00",
        "$0.12",
        "$0.000015",
        "-$2.50",
        "$1,234.00",
    ]
