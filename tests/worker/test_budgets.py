"""Budgets as a flow meets them: reserved and settled exactly once wherever a worker dies, an overrun is a wait (G3, G10)."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.stores import raw
from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, on, times
from torpor import App, BudgetExceeded, Conflict, Context, NeedsPerson, RunFailed, UsageError
from torpor.core.budget import Standing
from torpor.engine.effects import commit_inside
from torpor.errors import StoreUnavailable
from torpor.testing import Lab, Place, Run
from torpor.testing.mortal import KILLS

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.store.rows import BudgetRow

app = App()


@app.step
async def work(cost: int) -> int:
    """Do something that costs."""
    return COUNTER.act(f"work {cost}")


@app.flow
async def spends(ctx: Context) -> list[str]:
    """Reserve twice, settle one, leave the other to its block."""
    held = await ctx.budget.reserve(Decimal("0.20"))
    before = await ctx.budget.left()
    await ctx.step(work, 1)
    await held.settle(Decimal("0.12"))
    async with ctx.budget.reserve("1.50", lost="free"):
        await ctx.step(work, 2)
    return [str(before), str(await ctx.budget.left())]


@app.flow
async def funds(ctx: Context, budget: str) -> list[str]:
    """Give a child a budget of its own below this run's."""
    try:
        child = await ctx.spawn("spends", budget=budget)
    except UsageError as error:
        return [error.message]
    return [*await ctx.join(child), str(await ctx.budget.left())]


async def standing(lab: Lab, run: Run) -> Standing:
    """Return how the budget of a run stands."""
    found: dict[int, BudgetRow] = await lab.store.transact(lambda tx: tx.budgets_of([run.number]))
    return found[run.number].standing


@pytest.mark.slow
def test_money_is_spent_once_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Killed before, inside and after every commit: what stands in the budget is what the flow said, once (G3, G6)."""

    async def check(lab: Lab) -> None:
        crashes = 0
        async for crash in lab.every_crash(spends, before=COUNTER.clear, places=KILLS):
            assert await crash.result() == ["None", "None"], crash
            assert await standing(lab, crash.run) == Standing(None, 120_000, 0), crash
            assert await lab.store.transact(lambda tx, run=crash.run.number: tx.holds([run])) == [], crash
            crashes += 1
        assert crashes > 20

    on(store, moment, app, check)


def test_what_is_left_is_recorded(store: Store, moment: Moment) -> None:
    """With a limit, it says what others left as well."""

    async def check(lab: Lab) -> None:
        run = await lab.start(spends, budget=5)
        assert await lab.result(run) == ["4.80", "4.88"]
        assert await standing(lab, run) == Standing(5_000_000, 120_000, 0)

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("2", ["1.80", "1.88", "4.88"]),
        ("6", ["a child's budget of $6.00 does not fit below $5.00"]),
        ("0", ["a child's budget is 0: it must be more than nothing"]),
    ],
)
def test_a_child_with_a_budget_of_its_own(store: Store, moment: Moment, own: str, said: list[str]) -> None:
    """What it spends counts in both; one that does not fit below its parent's is told to the parent."""

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(funds, own, budget=5)) == said

    on(store, moment, app, check)


class Losing(FaultyStore):
    """Loses answers of commits that do something of their own, and says when."""

    def __init__(self, store: Store, losses: int) -> None:
        """Lose the first ones."""
        super().__init__(store)
        self.fault = times(losses, commit_inside, "lost")
        self.lost = asyncio.Event()

    async def transact(self, op: Any, /, *args: Any, **more: Any) -> Any:
        """Run a transaction; it happened although it raises."""
        try:
            return await super().transact(op, *args, **more)
        except StoreUnavailable:
            self.lost.set()
            raise


@pytest.mark.parametrize("losses", [1, 3])
def test_a_lost_answer_charges_nobody_twice(store: Store, moment: Moment, losses: int) -> None:
    """A reservation or settlement whose answer is lost is found in the journal by whoever takes the run over (G3)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(spends, budget=5)
        for _ in range(losses):
            settling = asyncio.create_task(lab.settle())
            await faulty.lost.wait()
            faulty.lost.clear()
            settling.cancel()
            await asyncio.wait([settling])
            lab.advance(60)  # its lease expires
        assert await lab.result(run) == ["4.80", "4.88"]
        assert await standing(lab, run) == Standing(5_000_000, 120_000, 0)
        assert faulty.faults == losses

    faulty = Losing(store, losses)
    on(cast("Store", faulty), moment, app, check)


@app.flow
async def wants(ctx: Context) -> str:
    """Spend three dollars twice."""
    for cost in (1, 2):
        try:
            async with ctx.budget.reserve(3):
                await ctx.step(work, cost)
        except BudgetExceeded as no:
            return str(no)
    return "done"


async def asks(lab: Lab) -> Run:
    """Return a run that waits for money."""
    run = await lab.start(wants, budget=5)
    await lab.settle()
    assert [(wait.kind, wait.title) for wait in await lab.waits(run)] == [
        ("budget", "wants $1.00 more, used $3.00 of $5.00")
    ]
    return run


def test_an_overrun_waits_for_a_person(store: Store, moment: Moment) -> None:
    """Raised for good, allowed once, or refused, which the flow can catch; nothing was reserved meanwhile."""

    async def check(lab: Lab) -> None:
        raised, allowed, refused = [await asks(lab) for _ in range(3)]
        with pytest.raises(NeedsPerson):
            await lab.result(raised)
        await lab.fund(raised, more="2.50", by="ana")
        await lab.fund(allowed, by="ben")
        await lab.fund(refused, no="too dear", by="cem")
        assert await lab.result(raised) == await lab.result(allowed) == "done"
        assert await lab.result(refused) == "wants $1.00 more, used $3.00 of $5.00; cem said no: too dear"
        assert await standing(lab, raised) == Standing(7_500_000, 6_000_000, 0)
        assert await standing(lab, allowed) == Standing(5_000_000, 6_000_000, 0)
        assert await standing(lab, refused) == Standing(5_000_000, 3_000_000, 0)

    on(store, moment, app, check)


def test_a_raise_that_is_too_small_asks_again(store: Store, moment: Moment) -> None:
    """With what still lacks, in a wait of its own; the old wait's second answer says who was first."""

    async def check(lab: Lab) -> None:
        run = await asks(lab)
        old = (await lab.waits(run))[0]
        await lab.fund(run, more="0.25", by="ana")
        with pytest.raises(Conflict, match=r"ana raised the limit by \$0.25 for"):
            await lab.fund(old, more=9)
        await lab.settle()
        assert [wait.title for wait in await lab.waits(run)] == ["wants $0.75 more, used $3.00 of $5.25"]
        with pytest.raises(Conflict, match=r"is over|ana raised"):
            await lab.fund(old, more=9)
        await lab.fund(run, more="0.75")
        assert await lab.result(run) == "done"
        assert await standing(lab, run) == Standing(6_000_000, 6_000_000, 0)

    on(store, moment, app, check)


def test_no_amount_raises_nothing(store: Store, moment: Moment) -> None:
    """Nothing, less than nothing, or no decimal: refused, and the wait stays."""

    async def check(lab: Lab) -> None:
        run = await asks(lab)
        for amount in (0, "-1", "much", 0.5):
            with pytest.raises(UsageError):
                await lab.fund(run, more=amount)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            await lab.start(wants, budget="-5")
        assert len(await lab.waits(run)) == 1

    on(store, moment, app, check)


@pytest.mark.slow
@pytest.mark.parametrize("said", [{"more": 1}, {}, {"no": "no"}])
def test_a_decision_about_money_holds_wherever_the_worker_dies(
    store: Store, moment: Moment, said: dict[str, Any]
) -> None:
    """Killed at every commit around the wait: decided once, charged once."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        await lab.fund(run, **said)

    async def check(lab: Lab) -> None:
        async def start(*_: object, **more: Any) -> Run:
            return await plain(wants, budget=5, key=more.get("key"))

        plain, lab.start = lab.start, start  # type: ignore[method-assign]
        async for crash in lab.every_crash(wants, drive=drive, before=COUNTER.clear, places=(*KILLS,)):
            result = await crash.result()
            spent = 3_000_000 if "no" in said else 6_000_000
            assert (result == "done") is ("no" not in said), crash
            assert (await standing(lab, crash.run))[1:] == (spent, 0), crash

    on(store, moment, app, check)


def test_money_that_comes_back_ends_the_wait(store: Store, moment: Moment) -> None:
    """Others of the tree settle for less: the run goes on, and nobody has to answer its question any more (G20)."""

    async def check(lab: Lab) -> None:
        holder = await lab.start(holds, "free", budget=5)
        await lab.settle()
        child = await lab.start(wants_three)
        await lab.store.transact(lambda tx: _adopt(tx, child.number, holder.number))
        await lab.settle()
        lab.advance(1)
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(child)] == ["budget"]
        await lab.signal(holder, "go")
        assert await lab.result(child) == "had three"
        assert await lab.result(holder) == "held"
        assert await standing(lab, holder) == Standing(5_000_000, 3_000_000, 0)
        assert (await lab.store.transact(lambda tx: tx.people_waits(limit=9))) == []

    on(store, moment, app, check)


@app.flow
async def holds(ctx: Context, lost: str) -> str:
    """Hold money over a wait, and never settle it."""
    await ctx.budget.reserve(4, lost="free" if lost == "free" else "spent")
    await ctx.receive("go")
    return "held"


@app.flow
async def wants_three(ctx: Context) -> str:
    """Wait a moment, so that a test can make it a child; then want three dollars, and settle them."""
    await ctx.sleep(1)
    held = await ctx.budget.reserve(3)
    await held.settle(3)
    return "had three"


def _adopt(tx: Any, child: int, parent: int) -> None:
    raw(tx).execute(f"UPDATE runs SET parent = {parent:d} WHERE id = {child:d}")  # noqa: S608 - two numbers


@pytest.mark.parametrize(("lost", "spent"), [("spent", 4_000_000), ("free", 0)])
@pytest.mark.parametrize("ends", ["ends", "is cancelled"])
def test_what_is_never_settled_ends_by_its_rule(store: Store, moment: Moment, lost: str, spent: int, ends: str) -> None:
    """With its turn, also if the run is cancelled while it sleeps; until then it is held."""

    async def check(lab: Lab) -> None:
        run = await lab.start(holds, lost, budget=5)
        await lab.settle()
        assert await standing(lab, run) == Standing(5_000_000, 0, 4_000_000)
        if ends == "ends":
            await lab.signal(run, "go")
        else:
            await lab.cancel(run)
        await lab.settle()
        assert await lab.state(run) == ("completed" if ends == "ends" else "cancelled")
        assert await standing(lab, run) == Standing(5_000_000, spent, 0)

    on(store, moment, app, check)


@app.flow
async def gives_up(ctx: Context) -> str:
    """Wait for money no longer than a minute."""
    try:
        async with asyncio.timeout(60):
            await ctx.budget.reserve(9)
    except TimeoutError:
        await ctx.receive("go")
    return "went on"


def test_a_wait_that_is_given_up_leaves_the_inbox(store: Store, moment: Moment) -> None:
    """Nothing is asked and nothing held any more."""

    async def check(lab: Lab) -> None:
        run = await lab.start(gives_up, budget=5)
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run) if wait.for_person] == ["budget"]
        lab.advance(60)
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run)] == ["message"]
        assert await lab.store.transact(lambda tx: tx.people_waits(limit=9)) == []
        await lab.signal(run, "go")
        assert await lab.result(run) == "went on"
        assert await standing(lab, run) == Standing(5_000_000, 0, 0)

    on(store, moment, app, check)


@app.flow
async def wrongly(ctx: Context, how: str) -> None:
    """Make a mistake."""
    if how == "twice":
        held = await ctx.budget.reserve(1)
        await held.settle(1)
        await held.settle(1)
    elif how == "lost":
        await ctx.budget.reserve(1, lost="maybe")  # type: ignore[arg-type]
    else:
        await ctx.budget.reserve(0.5 if how == "float" else how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "said"),
    [("twice", "settled before"), ("lost", '"spent" or "free"'), ("float", "no decimal"), ("-1", "zero or more")],
)
def test_mistakes_fail_the_run(how: str, said: str) -> None:
    """With what is wrong; what was held is not held any more."""

    async def check() -> None:
        async with Lab(app) as lab:
            run = await lab.start(wrongly, how, budget=5)
            with pytest.raises(RunFailed, match=said):
                await lab.result(run)
            assert (await standing(lab, run)).held == 0

    asyncio.run(check())


def test_a_crash_point_is_inside_a_reservation() -> None:
    """The crash matrix above also kills between the money and its record."""

    async def check() -> None:
        async with Lab(app) as lab:
            lab.crash(Place.INSIDE)
            run = await lab.start(spends, budget=5)
            await lab.settle()
            assert lab.deaths == 1
            assert await standing(lab, run) == Standing(5_000_000, 120_000, 0)

    asyncio.run(check())
