"""Rate buckets as flows meet them: in order, no herd, a crash loses no attempt, a provider is heard by everybody (G20)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Context, EffectContext, RateLimited, RunFailed, UsageError, minutes
from torpor.core.rate import Bucket, Rate
from torpor.testing import Lab, Run
from torpor.testing.mortal import KILLS

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store

app = App()
SECOND = 1_000_000
LIMIT = {"limit": 10}
"""What the flows below ask for; a test changes it, as a deployment would."""


@app.step
async def letter(number: int) -> int:
    """Send a letter."""
    COUNTER.act(f"mail {number}")
    return number


@app.flow
async def sends(ctx: Context, number: int) -> int:
    """Send a letter when it is this run's turn."""
    await ctx.rate("mail", limit=LIMIT["limit"], per=minutes(1))
    return await ctx.step(letter, number)


@app.flow
async def sends_three(ctx: Context) -> list[int]:
    """Send three letters."""
    found = []
    for number in range(3):
        await ctx.rate("mail", limit=10, per=timedelta(minutes=1))
        found.append(await ctx.step(letter, number))
    return found


async def taken(lab: Lab, run: Run, name: str = "mail") -> list[int]:
    """Return when a run took its places, in seconds since the test's clock began to matter."""
    lines = await lab.journal(run)
    return [line.at // SECOND for line in lines if line.key.startswith(f"{name}#") and line.kind == "outcome"]


async def due(lab: Lab, run: Run) -> int:
    """Return the moment of the place that a run waits for, in the same seconds."""
    (wait,) = await lab.waits(run)
    assert wait.due_at is not None
    return round(wait.due_at.timestamp())


async def bucket(lab: Lab) -> Bucket:
    """Return the bucket of the mail."""
    row = await lab.store.transact(lambda tx: tx.find_bucket("mail"))
    assert row is not None
    return Bucket(Rate(row.most, row.per, row.burst), row.promised, row.used, row.late)


def test_runs_go_in_order_and_wake_once(store: Store, moment: Moment) -> None:
    """Thirty at once: each at a moment of its own, in the order in which they asked, woken once (G20)."""

    async def check(lab: Lab) -> None:
        begin = lab.clock.now() // SECOND
        runs = [await lab.start(sends, n) for n in range(30)]
        await lab.settle()
        waits = [await lab.waits(run) for run in runs]
        assert sorted((wait.kind, wait.title) for of_one in waits for wait in of_one) == [("rate", "rate mail")] * 29
        await lab.pass_time(minutes(3))
        moments = [(await taken(lab, run))[0] - begin for run in runs]
        assert sorted(moments) == list(range(0, 180, 6))
        claims = await lab.store.transact(
            lambda tx: [row.epoch for row in tx.get_runs([r.number for r in runs]).values()]
        )
        assert sum(claims) <= 2 * len(runs)

    on(store, moment, app, check)


@pytest.mark.slow
def test_a_crash_loses_nothing_but_its_place(store: Store, moment: Moment) -> None:
    """Killed at every commit: three letters, six seconds apart at least, none before its place was taken (G3)."""

    async def check(lab: Lab) -> None:
        crashes, before = 0, 0

        def clear() -> None:
            COUNTER.clear()
            lab.advance(120)

        async for crash in lab.every_crash(sends_three, before=clear, places=KILLS):
            assert await crash.result() == [0, 1, 2], crash
            moments = await taken(lab, crash.run)
            assert len(moments) == 3, crash
            assert all(b - a >= 6 for a, b in zip([before, *moments], moments, strict=False)), crash
            before = moments[-1]
            crashes += 1
        assert crashes > 15

    on(store, moment, app, check)


@app.step(retries=1, timeout=30)
async def refused(number: int) -> str:
    """Be sent away three times, then fail once, then work: more than its retries if being sent away counted."""
    COUNTER.act(f"call {number}")
    count = COUNTER.calls.count(f"call {number}")
    if count <= 3:
        raise RateLimited(retry_after=30, bucket="mail")
    if count == 4:
        message = "a real failure"
        raise ValueError(message)
    return "sent"


@app.flow
async def is_refused(ctx: Context, number: int) -> str:
    """Call somebody who is busy."""
    await ctx.rate("mail", limit=10, per=minutes(1))
    return await ctx.step(refused, number)


def test_being_sent_away_costs_no_attempt(store: Store, moment: Moment) -> None:
    """And pushes everybody: whoever had a place before the provider allows it gets another."""

    async def check(lab: Lab) -> None:
        begin = lab.clock.now() // SECOND
        one = await lab.start(is_refused, 1)
        await lab.settle()
        assert [wait.title for wait in await lab.waits(one)] == ["retry of refused#1"]
        other = await lab.start(sends, 2)
        await lab.settle()
        assert await due(lab, other) - begin == 36  # behind the retry at 30
        await lab.pass_time(36)  # a step at a time: at 30 the one is refused again, until 60
        assert await due(lab, other) - begin == 66  # behind the retry at 60
        await lab.pass_time(60)
        assert await lab.state(other) == "completed"
        assert (await taken(lab, other))[0] - begin == 96
        assert await lab.result(one) == "sent"
        notes = [
            line.value["attempt"] for line in await lab.journal(one) if line.kind == "note" and "attempt" in line.value
        ]
        assert notes == [0, 0, 0, 1]

    on(store, moment, app, check)


@app.effect
async def once(ctx: EffectContext) -> str:
    """An effect that nobody may repeat, unless it says that it did not happen."""
    if COUNTER.act("once") == 1:
        raise RateLimited(retry_after=timedelta(seconds=5))
    return str(ctx.attempt)


@app.flow
async def acts_once(ctx: Context) -> str:
    """Do it."""
    return await ctx.effect(once)


@pytest.mark.slow
def test_a_once_effect_that_was_sent_away_did_not_happen(store: Store, moment: Moment) -> None:
    """It is tried again without a person; killed between the refusal and the next intent it still is (G4)."""

    async def check(lab: Lab) -> None:
        asked = 0
        async for crash in lab.every_crash(acts_once, before=COUNTER.clear):
            unknown = [effect for effect in await lab.effects(crash.run) if effect.state == "unknown"]
            asked += len(unknown)
            if not unknown:
                assert await crash.result() == "1", crash
                assert COUNTER.count == 2, crash
        assert asked <= 6  # killed between an intent and its outcome, where nobody knows

    on(store, moment, app, check)


@app.flow
async def slows_down(ctx: Context) -> None:
    """Tell everybody what a provider said."""
    await ctx.rate("mail", limit=10, per=60)
    await ctx.rate_retry_after("mail", 100)
    await ctx.rate("mail", limit=10, per=60)


def test_a_flow_can_push_the_bucket(store: Store, moment: Moment) -> None:
    """For itself as for others; a bucket that nobody knows has nobody to push."""

    async def check(lab: Lab) -> None:
        run = await lab.start(slows_down)
        await lab.result(run)
        first, _, second = await taken(lab, run)
        assert second - first == 100

    on(store, moment, app, check)


def test_a_changed_limit_holds_at_once(store: Store, moment: Moment, caplog: pytest.LogCaptureFixture) -> None:
    """From its first use on, and the log says what it was; a run that has a place keeps going."""

    async def check(lab: Lab) -> None:
        runs = [await lab.start(sends, n) for n in range(3)]
        await lab.settle()
        assert (await bucket(lab)).rate == Rate(10, 60 * SECOND)
        try:
            LIMIT["limit"] = 60
            late = await lab.start(sends, 3)
            assert await lab.result(late) == 3
            assert (await bucket(lab)).rate == Rate(60, 60 * SECOND)
            for run in runs:
                await lab.result(run)
        finally:
            LIMIT["limit"] = 10
        assert "limit changed" in caplog.text

    on(store, moment, app, check)


@app.flow
async def gives_up(ctx: Context) -> str:
    """Wait no longer than a second for a place."""
    try:
        async with asyncio.timeout(1):
            await ctx.rate("mail", limit=10, per=60)
    except TimeoutError:
        return "gave up"
    return "had it"


def test_a_place_can_be_given_up(store: Store, moment: Moment) -> None:
    """Its moment passes unused; nobody waits for it."""

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(gives_up)) == "had it"
        assert await lab.result(await lab.start(gives_up)) == "gave up"

    on(store, moment, app, check)


@app.flow
async def wrongly(ctx: Context, more: dict[str, Any]) -> None:
    """Ask for what is no rate."""
    given: dict[str, Any] = {"name": "mail", "limit": 10, "per": 60, **more}
    await ctx.rate(given.pop("name"), **given)


@pytest.mark.parametrize(
    "more",
    [{"limit": 0}, {"limit": 2.5}, {"per": 0}, {"per": -1}, {"n": 11}, {"burst": 11}, {"n": 0}, {"name": ""}],
)
def test_what_is_no_rate_is_refused(more: dict[str, Any]) -> None:
    """Where it was asked for, before anything is written."""

    async def check() -> None:
        async with Lab(app) as lab:
            run = await lab.start(wrongly, more)
            with pytest.raises(RunFailed) as failed:
                await lab.result(run)
            assert failed.value.kind == UsageError.__name__
            assert await lab.store.transact(lambda tx: tx.buckets(limit=9)) == []

    asyncio.run(check())
