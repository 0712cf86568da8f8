"""Guests of a turn: what they ask for is not overlooked, whenever the worker looks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.worker.labs import on
from torpor import App, Context
from torpor.sdk.guest import Guest

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

LABS: list[Lab] = []
app = App()


@app.step
async def three() -> int:
    """Return three."""
    return 3


@app.flow
async def looked_at(ctx: Context) -> int:
    """Let news be heard of between a guest's call and the moment in which the body's loop takes it."""
    guest = Guest(ctx)

    async def outside() -> int:
        asking = asyncio.ensure_future(guest.call(lambda inside: inside.step(three)))
        await asyncio.sleep(0)  # the call is made; the body's loop takes it in the next round
        [executor] = (await LABS[0].worker()).executors.values()
        executor.resubmit()  # as after a read of news
        return await asking

    return await guest.run(outside())


@app.flow
async def given_up(ctx: Context) -> int:
    """Let a guest stop waiting for calls, before and after they began, and ask for another one."""
    guest = Guest(ctx)

    async def outside() -> int:
        for rounds in (0, 1, 2):
            asking = asyncio.ensure_future(guest.call(lambda inside: inside.sleep(3600)))
            for _ in range(rounds):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
        return await guest.call(lambda inside: inside.step(three))

    return await guest.run(outside())


def test_a_call_on_its_way_is_not_overlooked(store: Store, moment: Moment) -> None:
    """A worker that looks at the run in between sees one that is busy, not one that waits for nothing."""

    async def check(lab: Lab) -> None:
        LABS[:] = [lab]
        assert await lab.result(await lab.start(looked_at)) == 3

    on(store, moment, app, check)


def test_a_call_that_is_given_up_is_forgotten(store: Store, moment: Moment) -> None:
    """However far it came; the run waits for nothing that nobody waits for."""

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(given_up)) == 3

    on(store, moment, app, check)
