"""Budgets from outside: limits, how they stand, and what people say when one is short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor.client.connected import Connected
from torpor.clock import SECOND, as_datetime
from torpor.core.ids import run_name, wait_name
from torpor.core.money import decimal_of, micros_of
from torpor.core.wait import WaitKind
from torpor.engine import budgets, rates
from torpor.engine.decisions import Decision, decide, find_run
from torpor.errors import Conflict
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from torpor.store.protocol import Tx
    from torpor.store.rows import BudgetRow


@dataclass(frozen=True, slots=True)
class Budget:
    """How a budget stands, in dollars. `of` is the run it belongs to, or `tenant NAME`, `program NAME`.

    `limit` and `left` are None where there is no limit. `reserved` is not spent and not free.
    """

    of: str
    limit: Decimal | None
    spent: Decimal
    reserved: Decimal
    left: Decimal | None


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit as it was asked for last, and when the next place is free."""

    name: str
    limit: int
    per_seconds: float
    burst: int
    next_at: datetime


class Spending(Connected):
    """Budgets and rates."""

    async def set_budget(self, whose: str, limit: Decimal | str | int) -> None:
        """Give a tenant (`tenant:acme`) or a program (`program:refunds`) a limit in dollars for all its runs together.

        It holds at once, also for runs that are under way; runs that wait for it are looked at again. Raises UsageError
        for another name, and for an amount that is negative or no decimal.
        """
        most = micros_of(limit, "limit", positive=True)
        await self.store.transact(budgets.set_root, whose, most)

    async def budgets(self, run: str) -> list[Budget]:
        """Return every budget that a run spends from. Raises NotFound, UsageError."""
        return await self.store.transact(_standing, run, lane=Lane.READ)

    async def rates(self, *, limit: int = 100) -> list[Limit]:
        """Return the rate limits that runs share, by name, a bounded number."""
        return await self.store.transact(_rates, limit, lane=Lane.READ)

    async def raise_budget(self, wait: str, more: Decimal | str | int, *, by: str) -> str:
        """Raise the limit that a wait is short of by some dollars, for good. Returns the wait's id.

        Everybody who waits for that budget and now fits goes on. The first decision wins: Conflict says who was first.
        Raises UsageError for an amount that is not positive or no decimal, and for a wait of another kind.
        """
        return await self._say(wait, {"raise": micros_of(more, "raise", positive=True), "by": by})

    async def allow_once(self, wait: str, *, by: str) -> str:
        """Let this one reservation be made although it does not fit; the limit stays. As `raise_budget`."""
        return await self._say(wait, {"once": True, "by": by})

    async def refuse_budget(self, wait: str, why: str = "", *, by: str) -> str:
        """Say no: the flow gets BudgetExceeded. As `raise_budget`."""
        return await self._say(wait, {"fail": why, "by": by})

    async def _say(self, wait: str, content: dict[str, Any]) -> str:
        row = await self.store.transact(decide, Decision(wait, content, WaitKind.BUDGET))
        if isinstance(row, Conflict):
            raise row
        return wait_name(row.run_id, row.seq)


def _standing(tx: Tx, run: str) -> list[Budget]:
    rows = budgets.budget_of(tx, find_run(tx, run)[0])
    return [_shown(tx, row) for row in rows]


def _shown(tx: Tx, row: BudgetRow) -> Budget:
    standing = row.standing
    return Budget(
        budgets.whose(tx, row) or _name(tx, row.run_id or 0),
        None if standing.most is None else decimal_of(standing.most),
        decimal_of(standing.spent),
        decimal_of(standing.held),
        None if standing.left is None else decimal_of(standing.left),
    )


def _rates(tx: Tx, limit: int) -> list[Limit]:
    return [
        Limit(row.name, row.most, row.per / SECOND, row.burst, as_datetime(rates.next_at(row, tx.now())))
        for row in tx.buckets(limit=limit)
    ]


def _name(tx: Tx, run_id: int) -> str:
    run = tx.get_runs([run_id]).get(run_id)
    return run_name(next((row.name for row in tx.programs() if run is not None and row.id == run.program), "?"), run_id)
