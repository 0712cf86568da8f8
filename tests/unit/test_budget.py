"""Budgets: what is left, what is short, and what people are told."""

from __future__ import annotations

from torpor.core.budget import Standing, least_left, wish

TWENTY = Standing(20_000_000, 18_000_000, 2_000_000)


def test_what_is_held_is_not_left() -> None:
    """Spent and held together; a budget that was overspent has nothing left; without a limit nothing is short."""
    assert TWENTY.left == 0
    assert TWENTY._replace(held=500_000).left == 1_500_000
    assert TWENTY._replace(spent=30_000_000).left == 0
    free = Standing(None, 5, 5)
    assert (free.left, free.lacks(10**15)) == (None, 0)


def test_what_is_short() -> None:
    """So much it would have to be raised, what was overspent included."""
    assert TWENTY.lacks(5_000_000) == 5_000_000
    assert TWENTY._replace(held=0).lacks(5_000_000) == 3_000_000
    assert TWENTY._replace(held=0).lacks(2_000_000) == 0
    assert TWENTY._replace(spent=21_000_000).lacks(1) == 3_000_001


def test_the_tightest_budget_says_what_is_left() -> None:
    """Of all above a run."""
    assert least_left([Standing(None, 0, 0), Standing(9, 2, 0), Standing(9, 0, 3)]) == 6
    assert least_left([Standing(None, 0, 0)]) is None


def test_people_are_told_what_to_raise() -> None:
    """The sentence of the inbox."""
    assert wish(TWENTY, 5_000_000, "") == "wants $5.00 more, used all of $20.00"
    some_left = TWENTY._replace(held=0)
    assert wish(some_left, 5_000_000, "tenant acme") == "wants $3.00 more, used $18.00 of $20.00 of tenant acme"
