"""A failed run that a person starts again: what is used, what runs again, what is not told twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Client, Context, NotDone, StepFailed

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
TROUBLE: set[str] = set()
"""What goes wrong now."""


@app.effect
async def mail(to: str) -> str:
    """Send what nobody can take back."""
    COUNTER.act(f"mail {to}")
    return to


@app.step
async def check(name: str) -> str:
    """Fail if something is wrong with it."""
    COUNTER.act(f"check {name}")
    if name in TROUBLE:
        raise OSError(name)
    return name


@app.effect
async def certain(name: str) -> str:
    """Fail, if it does, before it acts."""
    if name in TROUBLE:
        raise NotDone(name)
    COUNTER.act(f"certain {name}")
    return name


@app.flow
async def checks(ctx: Context, name: str) -> Any:
    """Check twice; tell somebody about what went wrong, and fail all the same."""
    first = await ctx.step(check, "first")
    try:
        second = await ctx.step(check, name)
    except StepFailed as failed:
        await ctx.effect(mail, failed.detail)
        raise
    return [first, second, await ctx.effect(certain, "third"), str(ctx.uuid())]


def test_a_retry_uses_what_succeeded(store: Store, moment: Moment) -> None:
    """The failed step runs again with a fresh count; what was told on the way is not told again unless it fails again."""
    TROUBLE.clear()
    TROUBLE.add("second")

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(checks, "second")
        await lab.settle()
        assert await lab.state(run) == "failed"
        again = await client.retry(run.name, by="ana")
        assert again.again == ["check#1"]
        await lab.settle()
        assert await lab.state(run) == "failed"
        assert COUNTER.calls == ["check first", "check second", "mail second", "check second"]
        TROUBLE.clear()
        TROUBLE.add("third")
        await client.retry(run.name, by="ana")
        await lab.settle()
        assert await lab.state(run) == "failed"
        TROUBLE.clear()
        done = await client.retry(run.name, by="ana")
        assert done.again == ["certain#1"]

        async def result() -> Any:
            return (await lab.result(run))[:3]

        assert await result() == ["first", "second", "third"]
        assert COUNTER.calls.count("check second") == 3
        assert COUNTER.calls.count("mail second") == COUNTER.calls.count("certain third") == 1

    on(store, moment, app, check)


def test_a_retry_survives_a_kill_at_every_place(store: Store, moment: Moment) -> None:
    """The replay of a retried turn comes to the same end wherever its worker dies."""

    async def check(lab: Lab) -> None:
        def before() -> None:  # not in `drive`: a worker takes a run up as soon as it is started
            COUNTER.clear()
            TROUBLE.add("second")

        async def drive(lab: Lab, run: Any) -> None:
            await lab.settle()
            for effect in await lab.effects(run):
                if effect.state == "unknown":
                    await lab.answer(run, happened="second")
                    await lab.settle()
            assert await lab.state(run) == "failed"
            TROUBLE.clear()
            await Client(lab.store).retry(run.name, by="ana")
            await lab.settle()
            for effect in await lab.effects(run):
                if effect.state == "unknown":
                    await lab.answer(run, happened="third")
                    await lab.settle()

        async for crash in lab.every_crash(checks, "second", before=before, drive=drive):
            assert (await crash.result())[:3] == ["first", "second", "third"], crash
            assert COUNTER.calls.count("mail second") <= 1, crash

    on(store, moment, app, check)


def test_a_retry_after_an_interrupt(store: Store, moment: Moment) -> None:
    """Every call that the interrupt ended runs again."""
    own = App()

    @own.flow
    async def waits_twice(ctx: Context) -> Any:
        return await asyncio.gather(ctx.receive("a"), ctx.receive("b"))

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(waits_twice)
        await lab.settle()
        await client.interrupt(run.name, by="ben")
        await lab.settle()
        assert await lab.state(run) == "failed"
        again = await client.retry(run.name, by="ana")
        assert again.again == ["a#1", "b#1"]
        await lab.signal(run, "a", 1)
        await lab.signal(run, "b", 2)
        assert await lab.result(run) == [1, 2]

    on(store, moment, own, check)
