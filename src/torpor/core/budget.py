"""Budgets: what may still be reserved. Pure; amounts are micro-units (`core.money`).

A budget counts what is `spent` and what is `held` by reservations that are not settled yet. A reservation is made in
every budget above its run at once, or in none: the run's own, those of its ancestors, its program's and its tenant's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.money import dollars

if TYPE_CHECKING:
    from collections.abc import Iterable


class Lost(IntEnum):
    """What becomes of a reservation that is never settled, once its turn or its run has ended."""

    FREE = 0
    """Nothing was bought: it is given back."""
    SPENT = 1
    """Nobody knows: it counts as spent, in full."""


class Short(IntEnum):
    """Whether somebody waits for a budget."""

    NOBODY = 0
    WAITS = 1
    STIRRED = 2
    """Somebody waits, and something was given back or added since they were looked at."""


class Standing(NamedTuple):
    """How a budget stands. `most` is None where there is no limit."""

    most: int | None
    spent: int
    held: int

    @property
    def used(self) -> int:
        """Return what cannot be reserved any more."""
        return self.spent + self.held

    @property
    def left(self) -> int | None:
        """Return what may still be reserved, never below nothing; None without a limit."""
        return None if self.most is None else max(0, self.most - self.used)

    def lacks(self, wants: int) -> int:
        """Return how much it would have to be raised for a reservation."""
        return 0 if self.most is None else max(0, self.used + wants - self.most)


def least_left(standings: Iterable[Standing]) -> int | None:
    """Return what may still be reserved under all of them; None without any limit."""
    return min((left for one in standings if (left := one.left) is not None), default=None)


def wish(standing: Standing, wants: int, whose: str, why: str = "") -> str:
    """Return what a person is told: `wants $5.00 more, used all of $20.00`; with `why` what is wanted has no amount."""
    most = standing.most or 0
    used = "all" if standing.used >= most else dollars(standing.used)
    stands = f"used {used} of {dollars(most)}{f' of {whose}' if whose else ''}"
    return f"{stands}, and {why}" if why else f"wants {dollars(standing.lacks(wants))} more, {stands}"
