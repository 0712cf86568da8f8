"""Children: started, joined, cancelled, refused; what goes wrong with them, and how often a parent is woken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.labs import on
from torpor import App, Context
from torpor.core.ids import parse_run, run_name
from torpor.core.run import Flag
from torpor.errors import ChildFailed, RunFailed, UsageError

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()


@dataclass
class Order:
    """What a child is started with, a type of the author's."""

    number: int
    note: str = ""


@app.flow
async def half(ctx: Context, order: Order) -> Order:
    """Halve a number, or fail at an odd one; a note is given back."""
    del ctx
    if order.number % 2:
        raise ValueError(f"{order.number} is odd")
    return Order(order.number // 2, order.note)


@app.flow
async def patient(ctx: Context, name: str) -> Any:
    """Wait for a word."""
    return await ctx.receive(name)


@app.flow
async def one(ctx: Context, order: Order) -> Any:
    """Join one child, and say how it failed if it did."""
    child = await ctx.spawn("half", order)
    try:
        return await ctx.join(child)
    except ChildFailed as failed:
        return [failed.child == child, failed.kind, failed.detail]


@app.flow
async def many(ctx: Context, numbers: list[int]) -> Any:
    """Join several children at once."""
    children = await asyncio.gather(*(ctx.spawn("half", Order(n)) for n in numbers))
    ended = await ctx.join_all(children, return_exceptions=True)
    return [str(one.detail) if isinstance(one, ChildFailed) else one.number for one in ended]


@app.flow
async def crowd(ctx: Context, number: int) -> int:
    """Wait for many children that wait for a word."""
    children = await asyncio.gather(*(ctx.spawn("patient", "go") for _ in range(number)))
    return len(await ctx.join_all(children))


@app.flow
async def loose(ctx: Context, independent: bool) -> str:  # noqa: FBT001 - a flow takes one state
    """Start a child and leave it."""
    return await ctx.spawn("patient", "go", independent=independent)


@app.flow
async def chain(ctx: Context, depth: int) -> str:
    """Be the parent of a chain of waiting runs."""
    if not depth:
        await ctx.receive("go")
        return "end"
    return str(await ctx.join(await ctx.spawn("chain", depth - 1)))


@app.flow
async def keyed(ctx: Context, turns: int) -> Any:
    """Ask for the same child in several turns."""
    child = await ctx.spawn("patient", "go", key="mine")
    if turns:
        return ctx.again(turns - 1)
    return child


@app.flow
async def mistaken(ctx: Context, how: str) -> list[str]:
    """Make one mistake, and return what is said about it."""
    try:
        if how == "unknown":
            await ctx.spawn("nothing", 1)
        elif how == "itself":
            await ctx.join(ctx.run_id)
        elif how == "no id":
            await ctx.join("who?")
        elif how == "twice":
            child = await ctx.spawn("half", Order(2))
            await ctx.join(child)
            await ctx.join(child)
        elif how == "at once":
            child = await ctx.spawn("half", Order(2))
            await asyncio.gather(ctx.join(child), ctx.join_all([child]))
        else:
            await ctx.join_all([how])
    except UsageError as error:
        return [error.message, error.hint]
    return []


@app.flow
async def ancestor(ctx: Context) -> Any:
    """Let a child wait for this run: a cycle."""
    return await ctx.join(await ctx.spawn("mistaken", ctx.run_id))


def children_of(lab: Lab, run: Run) -> Any:
    """Return the rows of a run's children."""
    return lab.store.transact(lambda tx: tx.children(run.number, limit=2000))


def test_a_result_comes_back_as_it_was(store: Store, moment: Moment) -> None:
    """A type of the author's, small or large enough to be a blob of the child's; an input too (G14)."""

    async def check(lab: Lab) -> None:
        for note in ("", "x" * 200_000):
            assert await lab.result(await lab.start(one, Order(8, note))) == Order(4, note)

    on(store, moment, app, check)


def test_a_childs_error_is_raised(store: Store, moment: Moment) -> None:
    """With its kind and text; a cancelled one says so; uncaught it fails the parent."""

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(one, Order(3))) == [True, "ValueError", "3 is odd"]
        run = await lab.start(chain, 1)
        await lab.settle()
        (child,) = await children_of(lab, run)
        await lab.store.transact(cancel_op, child.id)
        with pytest.raises(RunFailed, match="was cancelled"):
            await lab.result(run)

    on(store, moment, app, check)


def cancel_op(tx: Any, run: int) -> Any:
    """Cancel a run."""
    from torpor.engine import runs

    return runs.cancel(tx, run)


def test_results_in_order(store: Store, moment: Moment) -> None:
    """All of them, with the errors in their places; of none, none."""

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(many, [8, 3, 6])) == [4, "3 is odd", 3]
        assert await lab.result(await lab.start(many, [])) == []

    on(store, moment, app, check)


def test_a_parent_of_a_hundred_is_claimed_a_few_times(store: Store, moment: Moment) -> None:
    """Started, woken by the starts, woken by the last end: its epochs say so (G20)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(crowd, 100)
        await lab.settle()
        before = (await row_of(lab, run)).epoch
        for child in await children_of(lab, run):
            await lab.signal(run_named("patient", child.id), "go")
            if child.id % 10 == 0:
                await lab.settle()
        assert await lab.result(run) == 100
        after = (await row_of(lab, run)).epoch
        assert before <= 4
        assert after == before + 1

    on(store, moment, app, check, patience_seconds=40.0)


async def row_of(lab: Lab, run: Run) -> Any:
    """Return a run's row."""
    return (await lab.store.transact(lambda tx: tx.get_runs([run.number])))[run.number]


def run_named(program: str, number: int) -> Run:
    """Return a run by number."""
    from torpor.testing.lab import run_of

    return run_of(run_name(program, number))


@pytest.mark.parametrize("independent", [False, True])
def test_orphans(store: Store, moment: Moment, *, independent: bool) -> None:
    """A parent that completed takes the children with it that it did not join; an independent one goes on."""

    async def check(lab: Lab) -> None:
        child = await lab.result(await lab.start(loose, independent))
        await lab.settle()
        run = run_named("patient", parse_run(child)[1])
        assert await lab.state(run) == ("waiting" if independent else "cancelled")
        if independent:
            await lab.signal(run, "go", 5)
            assert await lab.result(run) == 5

    on(store, moment, app, check)


def test_a_cancel_goes_down_the_generations(store: Store, moment: Moment) -> None:
    """A chain of waiting runs is cancelled from the top."""

    async def check(lab: Lab) -> None:
        run = await lab.start(chain, 4)
        await lab.settle()
        await lab.cancel(run)
        await lab.settle()
        found = [run.number]
        while below := await children_of(lab, run_named("chain", found[-1])):
            found.append(below[0].id)
        assert len(found) == 5
        states = [await lab.state(run_named("chain", number)) for number in found]
        assert states == ["cancelled"] * 5

    on(store, moment, app, check)


def test_a_key_names_one_child(store: Store, moment: Moment) -> None:
    """Asked for again in a later turn it is the same; another parent has its own."""

    async def check(lab: Lab) -> None:
        first, second = await lab.start(keyed, 2), await lab.start(keyed, 0)
        names = [await lab.result(run) for run in (first, second)]
        assert names[0] != names[1]
        for run, name in zip((first, second), names, strict=True):
            rows = await children_of(lab, run)
            assert [row.id for row in rows] == [parse_run(name)[1]]
            assert rows[0].flags & Flag.CHILD

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("unknown", 'no program named "nothing" (the store has: ancestor, chain,'),
        ("itself", "is this run"),
        ("no id", "is not an id"),
        ("twice", "was joined before"),
        ("at once", "is being joined already"),
        ("half-ZZZZ", "is not a child of mistaken-"),
    ],
)
def test_mistakes_are_told(store: Store, moment: Moment, how: str, said: str) -> None:
    """Each is a UsageError in the flow, with the next step; the run goes on."""

    async def check(lab: Lab) -> None:
        message, hint = await lab.result(await lab.start(mistaken, how))
        assert said in message
        assert hint

    on(store, moment, app, check)


def test_a_cycle_is_a_mistake(store: Store, moment: Moment) -> None:
    """A child that would wait for its ancestor is told, instead of both sleeping for ever."""

    async def check(lab: Lab) -> None:
        run = await lab.start(ancestor)
        message, _ = await lab.result(run)
        assert f"{run} is not a child of mistaken-" in message

    on(store, moment, app, check)
