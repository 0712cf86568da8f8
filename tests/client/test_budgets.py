"""Budgets from outside, on every store."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from torpor import App, Client, Conflict, Context, NotFound, UsageError
from torpor.client.spending import Budget, Limit
from torpor.testing import Lab

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store

app = App()


@app.flow
async def costs(ctx: Context, dollars: int) -> str:
    """Spend some dollars, and hold one more over a signal."""
    held = await ctx.budget.reserve(dollars)
    await held.settle(dollars)
    await ctx.budget.reserve(1, lost="free")
    await ctx.receive("go")
    return "paid"


def test_budgets_of_a_run(store: Store, moment: Moment) -> None:
    """Its own, its program's and its tenant's, each with what is spent, reserved and left."""

    async def main() -> None:
        async with Lab(app, store=store, clock=moment) as lab:
            client = Client(store)
            await client.set_budget("program:costs", "50")
            await client.set_budget("tenant:acme", Decimal("7.50"))
            run = (await client.start("costs", 3, tenant="acme", budget="5.25")).run_id
            await lab.settle()  # the other comes second to what the tenant has left
            again = await client.start("costs", 3, tenant="acme", key="k")
            assert await client.start("costs", 3, tenant="acme", key="k", budget=9) == again._replace(created=False)
            await lab.settle()
            found = {budget.of: budget for budget in await client.budgets(run)}
            assert found[run] == Budget(run, Decimal("5.25"), Decimal(3), Decimal(1), Decimal("1.25"))
            assert found["tenant acme"].left == Decimal("0.50")
            assert found["program costs"].spent == Decimal(6)
            (wait,) = (await client.inbox()).items
            assert (wait.run, wait.what) == (again.run_id, "wants $0.50 more, used $7.00 of $7.50 of tenant acme")
            await client.set_budget("tenant:acme", 100)
            await lab.settle()
            assert (await client.inbox()).items == []

    asyncio.run(main())


def test_deciding_about_money(store: Store, moment: Moment) -> None:
    """The first decision wins; an approval is no answer to it; wrong amounts change nothing."""

    async def main() -> None:
        async with Lab(app, store=store, clock=moment) as lab:
            client = Client(store)
            run = (await client.start("costs", 9, budget=5)).run_id
            await lab.settle()
            (item,) = (await client.inbox()).items
            for amount in ("-1", 0, 0.5, "NaN"):
                with pytest.raises(UsageError):
                    await client.raise_budget(item.wait, amount, by="ada")  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="budget"):
                await client.approve(item.wait, by="ada")
            await client.refuse_budget(item.wait, "no", by="ada")
            with pytest.raises(Conflict, match="ada said"):
                await client.raise_budget(item.wait, 9, by="ben")
            assert [budget.limit for budget in await client.budgets(run)] == [Decimal(5)]
            await lab.settle()
            assert (await client.get(run)).state == "failed"
            with pytest.raises(NotFound):
                await client.budgets("costs-ZZZZZ")
            with pytest.raises(UsageError):
                await client.set_budget("nobody", 5)

    asyncio.run(main())


@app.flow
async def sends(ctx: Context) -> None:
    """Take a place."""
    await ctx.rate("mail", limit=2, per=60)


def test_rates_are_read(store: Store, moment: Moment) -> None:
    """With the moment of the next place."""

    async def main() -> None:
        async with Lab(app, store=store, clock=moment) as lab:
            client = Client(store)
            assert await client.rates() == []
            for _ in range(2):
                await client.start("sends")
            await lab.settle()
            assert await client.rates() == [Limit("mail", 2, 60.0, 1, lab.now + timedelta(seconds=60))]

    asyncio.run(main())
