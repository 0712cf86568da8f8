"""The lives of runs: rows, large values, secrets, versions, cancel, drain, keys, names."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Context, EffectContext, NotFound, Rows
from torpor.store.opening import open_store
from torpor.testing import Clock, Lab, Place

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Run

app = App()


@app.step
async def make(n: int) -> str:
    """Make a large value."""
    COUNTER.act("make")
    return str(n) * 50_000


@dataclass
class Book:
    """A state with rows."""

    pages: int
    lines: Rows[Any] = field(default_factory=Rows)
    notes: Rows[str] = field(default_factory=lambda: Rows(["first"]))


@app.flow
async def writer(ctx: Context, state: Book) -> Any:
    """Append in each turn, read at the end."""
    if state.pages:
        state.pages -= 1
        text = await ctx.step(make, state.pages)
        state.lines.append(text[:3])
        state.lines.extend([len(state.lines), None])
        if state.pages == 1:
            state.notes.append("half")
        return ctx.again(state)
    lines = [line async for line in state.lines]
    await ctx.sleep(5)
    again = [line async for line in state.lines]
    assert lines == again
    return lines, [note async for note in state.notes], len(state.lines), len(state.notes)


WRITTEN = ["222", 1, None, "111", 4, None, "000", 7, None]


@pytest.mark.slow
def test_rows_are_written_once_and_in_order(store: Store, moment: Moment) -> None:
    """Whatever happens between, each row is there once, and reading mixes with everything else."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(writer, Book(3)):
            assert await crash.result() == (WRITTEN, ["first", "half"], 9, 2), crash

    on(store, moment, app, check)


def test_a_checkpoint_writes_only_new_rows(store: Store, moment: Moment) -> None:
    """What was appended in earlier turns is not written again, and the state holds its length only."""

    async def check(lab: Lab) -> None:
        run = await lab.start(writer, Book(3))
        await lab.settle()
        state = (await lab.store.transact(lambda tx: tx.states([run.number])))[run.number]
        assert len(state.body) < 300
        rows = await lab.store.transact(lambda tx: tx.get_rows(run.number, "lines", after=0, limit=100))
        assert len(rows) == 9

    on(store, moment, app, check)


BIG = "b" * 200_000


@app.flow
async def large(ctx: Context, state: str) -> Any:
    """Handle large values everywhere."""
    if len(state) < 400_000:
        return ctx.again(state + await ctx.step(make, 7) + BIG)
    answer = await ctx.approval("Read?", show=state)
    message = await ctx.receive("letter")
    return len(state), answer.by, message


@pytest.mark.slow
def test_large_values_are_stored_once_and_found_again(store: Store, moment: Moment) -> None:
    """State, result, message and approval of more than 32 KiB, wherever the worker dies (G14)."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        (wait,) = [wait for wait in await lab.waits(run) if wait.for_person]
        assert len(wait.show["show"]) == 450_000
        await lab.approve(run, by="ada")
        await lab.signal(run, "letter", BIG)
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(large, BIG, drive=drive, places=(Place.BEFORE, Place.AFTER)):
            assert await crash.result() == (450_000, "ada", BIG), crash

    on(store, moment, app, check)


@app.effect(safety="keyed")
async def uses_secret(ctx: EffectContext, found: str) -> str:
    """Return the secret, as careless code does."""
    return f"{found} {ctx.secret('token')}"


@app.flow
async def careless(ctx: Context) -> str:
    """Let a secret leak into everything."""
    secret = ctx.secret("token")
    answer = await ctx.effect(uses_secret, f"argument {secret}")
    await ctx.sleep(10)
    raise RuntimeError(f"failed with {secret} and {answer}")


def test_a_secret_is_in_no_byte_of_the_store(tmp_path: Path) -> None:
    """Arguments, results, errors: torpor strikes out what it resolved itself (G15)."""
    canary = 'hunter2-ümlaut-"quoted"-canary'

    async def main() -> None:
        async with Lab(app, secrets={"token": canary}, store=store, clock=clock) as lab:
            run = await lab.start(careless)
            await lab.settle()
            await lab.pass_time(10)
            last = (await lab.journal(run))[-1]
            assert "[secret token]" in last.value["detail"]

    clock = Clock()
    store = open_store(f"sqlite:///{tmp_path / 'secret.db'}", clock=clock.now)
    asyncio.run(main())
    store.close_now()
    every = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"careless" in every
    for form in (canary.encode(), canary.encode("unicode_escape"), b"hunter2", b"umlaut", b"quoted"):
        assert form not in every


def test_an_unknown_secret_is_an_error_with_a_hint(store: Store, moment: Moment) -> None:
    """It says which variable to set."""

    async def check(lab: Lab) -> None:
        run = await lab.start(careless)
        await lab.settle()
        last = (await lab.journal(run))[-1]
        assert last.value["kind"] == NotFound.__name__
        assert "TORPOR_SECRET_TOKEN" in last.value["hint"]

    on(store, moment, app, check)


# versions


def first_app() -> App:
    """Return version 1 of a program."""
    old = App()

    @old.flow(name="ledger")
    async def ledger(ctx: Context, state: dict[str, Any]) -> Any:
        await ctx.receive("go")
        return ctx.again({**state, "turns": state["turns"] + 1})

    return old


def second_app(*, upcast: bool) -> App:
    """Return version 2, whose state has another form."""
    new = App()

    @new.flow(name="ledger", version=2)
    async def ledger(ctx: Context, state: dict[str, Any]) -> Any:
        await ctx.receive("go")
        return "version 2", state["count"]

    if upcast:
        new.upcast(1, lambda state: {"count": state["turns"] * 10})
    return new


def test_a_sleeping_run_wakes_in_new_code(store: Store, moment: Moment) -> None:
    """Its state goes through the upcast, and what it had asked for is still asked for."""
    runs: list[Run] = []

    async def before(lab: Lab) -> None:
        run = await lab.start("ledger", {"turns": 0})
        await lab.signal(run, "go")
        await lab.settle()
        runs.append(run)

    async def after(lab: Lab) -> None:
        await lab.signal(runs[0], "go")
        assert await lab.result(runs[0]) == ("version 2", 10)

    on(store, moment, first_app(), before)
    on(store, moment, second_app(upcast=True), after)


def test_a_worker_leaves_alone_what_it_does_not_serve(store: Store, moment: Moment) -> None:
    """Without an upcast the old run stays ready for a worker that serves its version."""
    runs: list[Run] = []

    async def before(lab: Lab) -> None:
        runs.append(await lab.start("ledger", {"turns": 0}))
        await lab.settle()

    async def between(lab: Lab) -> None:
        await lab.signal(runs[0], "go")
        run = await lab.start("ledger", {"count": 5})
        await lab.signal(run, "go")
        await lab.worker()
        while await lab.state(run) != "completed":  # by a claim that found both
            await lab.change()
        await lab.drain()
        assert await lab.state(runs[0]) == "ready"

    async def after(lab: Lab) -> None:
        await lab.settle()
        (state,) = (await lab.store.transact(lambda tx: tx.states([runs[0].number]))).values()
        assert state.turn == 2

    on(store, moment, first_app(), before)
    on(store, moment, second_app(upcast=False), between)
    on(store, moment, first_app(), after)


def test_a_failing_upcast_waits_for_a_person(store: Store, moment: Moment) -> None:
    """The state is not touched: with better code the run goes on (G13)."""
    runs: list[Run] = []
    bad = second_app(upcast=False)
    bad.upcast(1, lambda state: {"count": state["no such field"]})

    async def before(lab: Lab) -> None:
        runs.append(await lab.start("ledger", {"turns": 3}))
        await lab.settle()

    async def broken(lab: Lab) -> None:
        await lab.signal(runs[0], "go")
        await lab.settle()
        (wait,) = [wait for wait in await lab.waits(runs[0]) if wait.for_person]
        assert "no such field" in wait.title

    async def after(lab: Lab) -> None:
        await lab.answer(runs[0], again=True)
        assert await lab.result(runs[0]) == ("version 2", 30)

    on(store, moment, first_app(), before)
    on(store, moment, bad, broken)
    on(store, moment, second_app(upcast=True), after)
