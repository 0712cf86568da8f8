"""A worker that is killed in a lab leaves nothing that is closed later: neither its code runs, nor does the loop complain."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tests.agent.scripted import agent_of, forget
from tests.worker.labs import on
from torpor import App, EffectContext
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from tests.stores import Moment
    from torpor.sdk.context import Context
    from torpor.store.protocol import Store
    from torpor.testing import Lab

CLOSED: list[str] = []


async def act(how: str) -> str:
    """Act."""
    return how


async def numbers(name: str) -> AsyncIterator[int]:
    """Count; say when it is closed."""
    try:
        yield 1
        yield 2
    finally:
        CLOSED.append(name)


async def look(ctx: EffectContext, name: str) -> int:
    """Begin to count, and never come to an end of it."""
    del ctx
    LEFT.append(numbers(name))
    return await anext(LEFT[-1])


LEFT: list[AsyncIterator[int]] = []
SCRIPT = Script(["let me ", call("act", how="x")], "done", model="quiet")
app = App()
app.agent("desk", agent_of(SCRIPT, act), safety={"act": "keyed"})


@app.flow
async def counts(ctx: Context, name: str) -> int:
    """Leave a generator behind that nobody has closed."""
    return await ctx.step(look, name)


def test_the_loop_closes_nothing_of_the_dead(store: Store, moment: Moment, caplog: pytest.LogCaptureFixture) -> None:
    """pydantic-ai keeps a generator open for each run of an agent; asyncio.run closes those it knows of at its end."""
    forget(SCRIPT)

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash("desk", "go", before=lambda: forget(SCRIPT)):
            assert await crash.result() == "done"

    with caplog.at_level(logging.WARNING, "asyncio"):
        on(store, moment, app, check)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


def test_what_a_worker_left_that_lived_is_closed(store: Store, moment: Moment) -> None:
    """When it has ended, as asyncio.run would; that of one that was killed never is."""
    CLOSED.clear()
    LEFT.clear()

    async def check(lab: Lab) -> None:
        await lab.result(await lab.start("counts", "lived"))
        assert CLOSED == []
        await lab.drain()
        assert CLOSED == ["lived"]
        lab.crash(Place.ACTED)
        await lab.start("counts", "died")
        await lab.settle()

    on(store, moment, app, check)
    assert CLOSED == ["lived", "died"], "the second worker's, which lived; not the first one's"
    assert len(LEFT) == 3
