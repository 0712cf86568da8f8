"""Children: started, joined, cancelled, refused; what goes wrong with them, and how often a parent is woken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.labs import on
from torpor import App, Context
from torpor.client import Client
from torpor.core.ids import parse_run, run_name
from torpor.core.run import Flag, State
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
        elif how == "half a letter":
            await ctx.spawn("half", Order(2), key="\ud800")
        elif how == "half a name":
            await ctx.spawn("\ud800", Order(2))
        elif how == "half a step":
            await ctx.step(mood, 2, step_id="\ud800")
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


@app.flow
async def parting(ctx: Context, numbers: list[int]) -> Any:
    """Join children, and fail with them."""
    children = await asyncio.gather(*(ctx.spawn("moody", n) for n in numbers))
    return await ctx.join_all(children) if numbers[1:] else await ctx.join(children[0])


@app.flow
async def leaving(ctx: Context, number: int) -> Any:
    """Start a child that fails, and wait for a word."""
    await ctx.spawn("moody", number)
    return await ctx.receive("go")


@app.flow
async def moody(ctx: Context, number: int) -> Any:
    """Fail until the world is mended, then have a child of one's own."""
    await ctx.step(mood, number)
    return await ctx.join(await ctx.spawn("half", Order(2 * number)))


@app.step
async def mood(number: int) -> None:
    """Refuse odd numbers while they are not mended."""
    if number % 2 and not MENDED:
        raise ValueError(f"{number} is odd")


MENDED: list[bool] = []


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

    on(store, moment, app, check)


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
        ("half a letter", "a child's key has at most 500 letters"),
        ("half a name", "a program's name is a text of 1 to 200 letters"),
        ("half a step", "half of a surrogate pair cannot be stored"),
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


@pytest.mark.parametrize("numbers", [[1], [1, 2, 3]])
def test_a_failed_family_is_retried(store: Store, moment: Moment, numbers: list[int]) -> None:
    """The children first, which act although their parent ended; then the parent joins them as they are now."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(parting, numbers)
        with pytest.raises(RunFailed, match="1 is odd"):
            await lab.result(run)
        await client.retry(run.name, by="ana")
        with pytest.raises(RunFailed, match="1 is odd"):  # nothing was mended: told again, it fails again
            await lab.result(run)
        MENDED.append(True)
        for row in await children_of(lab, run):
            if row.state is State.FAILED:
                await client.retry(run_name("moody", row.id), by="ana")
        await lab.settle()
        rows = await children_of(lab, run)
        assert {row.state for row in rows} == {State.COMPLETED}, rows
        assert len((await client.retry(run.name, by="ana")).again) == 1
        done = await lab.result(run)
        assert [one.number for one in (done if numbers[1:] else [done])] == numbers
        assert await lab.store.transact(lambda tx: tx.unread([run.number])) == {}

    MENDED.clear()
    on(store, moment, app, check)


@pytest.mark.parametrize("ends", ["completed", "cancelled"])
def test_a_child_is_retried_below_a_parent_that_ended(store: Store, moment: Moment, ends: str) -> None:
    """It goes on as an independent one: it has a child, and is not stuck in silence (G13)."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(leaving, 1)
        await lab.settle()
        await (lab.signal(run, "go") if ends == "completed" else lab.cancel(run))
        await lab.settle()
        assert await lab.state(run) == ends
        MENDED.append(True)
        (row,) = await children_of(lab, run)
        name = run_name("moody", row.id)
        await client.retry(name, by="ana")
        await lab.settle()
        assert (await client.get(name)).state == "completed"

    MENDED.clear()
    on(store, moment, app, check)
