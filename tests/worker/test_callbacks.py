"""Callbacks: a token at once, one answer, durable before it is acknowledged, refused with a reason otherwise (G7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, Hold, commits_of, on, once
from torpor import App, Conflict, Context, NotFound, RunFailed, hours
from torpor.client import Client
from torpor.core.token import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment, Place
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()


@app.step
async def ask_outside(token: str) -> None:
    """Hand the token out; the far side may be faster than the record."""
    COUNTER.act(token)


@app.flow
async def calls(ctx: Context) -> Any:
    """Wait for an answer from outside, an hour at most."""
    callback = ctx.callback("the bank says yes", expires=hours(1))
    await ctx.step(ask_outside, callback.token)
    try:
        return await callback
    except TimeoutError as error:
        return f"late: {error}"


@app.flow
async def calls_twice(ctx: Context) -> Any:
    """Wait for two answers with one title at once."""
    callbacks = [ctx.callback("either"), ctx.callback("either")]
    for callback in callbacks:
        await ctx.step(ask_outside, callback.token)
    return list(await asyncio.gather(*callbacks))


@app.flow
async def gives_up(ctx: Context) -> Any:
    """Give a callback up, then go on."""
    callback = ctx.callback("soon")
    await ctx.step(ask_outside, callback.token)
    try:
        async with asyncio.timeout(60):
            return await callback
    except TimeoutError:
        return await ctx.receive("go")


@app.flow
async def forgets(ctx: Context, title: str) -> Any:
    """Make a callback and never await it."""
    ctx.callback(title)


async def token_of(lab: Lab, flow: Callable[..., Any]) -> tuple[Run, str]:
    """Start a flow and return its run and the token it gave out."""
    run = await lab.start(flow)
    await lab.settle()
    return run, COUNTER.calls[-1]


@pytest.mark.slow
def test_an_answer_holds_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """The token is the same in every life; the answer is consumed once."""

    async def drive(lab: Lab, _run: Run) -> None:
        await lab.settle()
        assert (await Client(lab.store).deliver(COUNTER.calls[-1], {"yes": 1})).new
        assert not (await Client(lab.store).deliver(COUNTER.calls[0], {"yes": 2})).new
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(calls, drive=drive, before=COUNTER.clear):
            assert await crash.result() == {"yes": 1}, crash
            assert len(set(COUNTER.calls)) == 1, crash

    on(store, moment, app, check)


@pytest.mark.slow
def test_an_expiry_holds_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Nothing came in time: the code is told, once."""

    async def drive(lab: Lab, _run: Run) -> None:
        await lab.settle()
        lab.advance(hours(1))
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(calls, drive=drive):
            assert await crash.result() == "late: the bank says yes expired", crash

    on(store, moment, app, check)


def test_an_answer_before_the_wait_is_durable_is_kept(store: Store, moment: Moment) -> None:
    """The far side is faster than the commit that registers the wait (G7)."""
    faulty, held = FaultyStore(store), Hold()
    faulty.fault = once(commits_of("wait callback#1"), held)

    async def check(lab: Lab) -> None:
        run = await lab.start(calls)
        settling = asyncio.create_task(lab.settle())
        await asyncio.wait_for(held.reached.wait(), PATIENCE_SECONDS)
        while not COUNTER.count:
            await lab.change()
        assert (await Client(lab.store).deliver(COUNTER.calls[0], "early")).new
        held.released.set()
        await settling
        assert await lab.result(run) == "early"

    on(faulty, moment, app, check)


def test_what_came_in_time_beats_an_expiry_that_did_not_see_it(store: Store, moment: Moment) -> None:
    """The worker has decided that it expired; the answer came before that was durable, and was acknowledged (G3)."""
    faulty, held = FaultyStore(store), Hold()
    faulty.fault = once(commits_of("outcome callback#1"), held)

    async def check(lab: Lab) -> None:
        run, token = await token_of(lab, calls)
        lab.advance(hours(1))
        settling = asyncio.create_task(lab.settle())
        await asyncio.wait_for(held.reached.wait(), PATIENCE_SECONDS)
        moment.advance(-1)  # as if it had come just before
        assert (await Client(lab.store).deliver(token, "in time")).new
        moment.advance(1)
        held.released.set()
        await settling
        assert await lab.result(run) == "in time"

    on(faulty, moment, app, check)


def test_an_answer_that_nobody_would_read_is_refused(store: Store, moment: Moment) -> None:
    """Expired, over, given up, cancelled, ended: each with its reason; a repetition of one that counted is handled."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run, token = await token_of(lab, calls)
        lab.advance(hours(1))
        with pytest.raises(Conflict, match="until it expired"):
            await client.deliver(token, 1)
        await lab.settle()
        with pytest.raises(Conflict, match="is completed"):
            await client.deliver(token, 1)

        run, token = await token_of(lab, gives_up)
        lab.advance(60)
        await lab.settle()
        with pytest.raises(Conflict, match="went on without this answer"):
            await client.deliver(token, 1)
        await lab.cancel(run)
        with pytest.raises(Conflict, match=r"is (being )?cancelled"):
            await client.deliver(token, 1)
        await lab.settle()

        run, token = await token_of(lab, calls)
        assert await client.deliver(token, "x" * 100_000) == (run.name, True)
        assert await lab.result(run) == "x" * 100_000
        assert await client.deliver(token, 1) == (run.name, False)

    on(store, moment, app, check)


def test_a_wrong_or_foreign_token_is_refused(make_place: Callable[[str], Place], moment: Moment) -> None:
    """Cut, changed, another store's, or nonsense: nothing is looked up for it."""
    here, there = make_place("sqlite"), make_place("memory")
    tokens: list[str] = []

    async def check(lab: Lab) -> None:
        run, token = await token_of(lab, calls)
        tokens.append(token)
        changed = PREFIX + token[len(PREFIX) :].swapcase()
        for wrong in (*tokens[:-1], token[:-3], changed, "", PREFIX, "nonsense", "\ud800", token.removeprefix(PREFIX)):
            with pytest.raises(NotFound, match="none that this store gave out"):
                await Client(lab.store).deliver(wrong, 1)
        assert (await Client(lab.store).deliver(f" {token}\n", 1)).new
        assert await lab.result(run) == 1

    on(here.open(), moment, app, check)
    on(there.open(), moment, app, check)
    assert tokens[0] != tokens[1]


def test_two_callbacks_of_one_title_are_told_apart(store: Store, moment: Moment) -> None:
    """Each has a token of its own; answers in any order."""

    async def check(lab: Lab) -> None:
        run = await lab.start(calls_twice)
        await lab.settle()
        first, second = COUNTER.calls
        assert (await Client(lab.store).deliver(second, 2)).new
        await lab.settle()
        assert (await Client(lab.store).deliver(first, 1)).new
        assert await lab.result(run) == [1, 2]

    on(store, moment, app, check)


def test_people_see_what_it_sleeps_for(store: Store, moment: Moment) -> None:
    """`ps` says it in words, with its moment; the token is nowhere."""

    async def check(lab: Lab) -> None:
        run, token = await token_of(lab, calls)
        shown = await Client(lab.store).show(run.name)
        assert shown.line.reason == "callback the bank says yes"
        assert shown.line.waits[0].due_at is not None
        assert token not in repr(shown)
        assert not (await Client(lab.store).inbox()).items

    on(store, moment, app, check)


@pytest.mark.parametrize(("title", "says"), [("x", "never awaited"), (" ", "title is empty")])
def test_a_callback_that_makes_no_sense_fails(store: Store, moment: Moment, title: str, says: str) -> None:
    """One that nobody awaits, or that says nothing."""

    async def check(lab: Lab) -> None:
        run = await lab.start(forgets, title)
        with pytest.raises(RunFailed, match=says):
            await lab.result(run)

    on(store, moment, app, check)
