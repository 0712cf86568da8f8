"""A worker whose loop is blocked says so, and where (G13)."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import App, Context, clock, rouse
from torpor.client import Client
from torpor.runtime import Process
from torpor.waker import TICK_SECONDS
from torpor.worker.blocked import LOOK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Place
    from torpor.store.protocol import Store

SAID = threading.Event()
MOVES = threading.Event()
BLOCK_SECONDS = 4 * LOOK_SECONDS
"""If nothing was said by then, what was said before about something else is not over: let the loop move."""
app = App()


@app.step
async def moves() -> None:
    """Let the loop move."""


@app.flow
async def spinning(ctx: Context, number: int) -> int:
    """Block the loop until the worker complains about it."""
    assert ctx.turn == 1
    while not SAID.is_set():
        ends_at = clock.monotonic() + BLOCK_SECONDS
        while not SAID.is_set() and clock.monotonic() < ends_at:
            pass
        await ctx.step(moves)
    return number


@app.step
async def grinding(number: int) -> int:
    """Block the loop inside a step, twice."""
    for _ in range(2):
        while not SAID.is_set():
            ends_at = clock.monotonic() + BLOCK_SECONDS
            while not SAID.is_set() and clock.monotonic() < ends_at:
                pass
            await asyncio.to_thread(int)
        SAID.clear()
        await asyncio.to_thread(MOVES.wait)
        MOVES.clear()
    return number


@app.flow
async def grinds(ctx: Context, number: int) -> int:
    """Call the step that blocks."""
    return await ctx.step(grinding, number)


class Ear(logging.Handler):
    """Hears the complaint about a function in the renewing thread, while the loop stands still."""

    def __init__(self, function: str) -> None:
        """Hear nothing yet. On a busy machine the loop may stand still elsewhere, too, and that is not meant."""
        super().__init__()
        self.heard = ""
        self.times = 0
        self._words = f" in {function}."
        self._standing = False

    def emit(self, record: logging.LogRecord) -> None:
        """Remember it and let the flow go on."""
        text = record.getMessage()
        if "has not moved" in text and self._words in text:
            self.heard = text
            self.times += 1
            self._standing = True
            SAID.set()
        elif "moves again" in text and self._standing:
            self._standing = False
            MOVES.set()


def test_a_blocked_loop_is_said_with_its_place(store: Store) -> None:
    """A flow that loops for ever keeps its lease, so somebody must say why nothing moves."""
    ear = hear(store, "spinning", "spinning", lease_seconds=1.0)
    assert "test_blocked_loop.py" in ear.heard
    assert "in spinning" in ear.heard


@pytest.mark.slow
def test_a_step_that_blocks_the_loop_is_named_once_each_time(store: Store) -> None:
    """After two seconds, long before a renewal of an ordinary lease; and when it is over."""
    ear = hear(store, "grinds", "grinding", lease_seconds=3600.0)
    assert ear.times == 2
    assert re.search(r"has not moved for \d+ s", ear.heard)
    assert "in grinding#1 of grinds-" in ear.heard
    assert "in grinding." in ear.heard


def hear(store: Store, flow: str, function: str, *, lease_seconds: float) -> Ear:
    """Work on a run that blocks the loop in a function until the worker says so, and return what was heard."""
    SAID.clear()
    MOVES.clear()
    ear = Ear(function)
    logging.getLogger("torpor.worker").addHandler(ear)

    async def main() -> object:
        process = Process(store, app, lease_seconds=lease_seconds)
        working = asyncio.create_task(process.run())
        await process.worker.ready.wait()
        client = Client(store)
        started = await client.start(flow, 7)
        result = await client.result(started.run_id, timeout_seconds=PATIENCE_SECONDS)
        process.worker.stop()
        await working
        return result

    try:
        assert asyncio.run(main()) == 7
    finally:
        logging.getLogger("torpor.worker").removeHandler(ear)
    return ear


@pytest.mark.slow
def test_a_blocked_loop_is_no_freeze(make_place: Callable[[str], Place]) -> None:
    """The threads beside it went on: no phase runs, and no connection of the author's is dropped."""
    long = rouse.Limits(tick_seconds=TICK_SECONDS)

    async def check() -> None:
        process = Process(make_place("memory").open(), app)
        working = asyncio.create_task(process.run())
        await process.worker.ready.wait()
        default = rouse.Watcher(long, registry=rouse.Registry())
        seen = rouse.incarnation()
        ends_at = clock.monotonic() + long.tick_seconds + long.freeze_seconds + 0.5
        while clock.monotonic() < ends_at:
            pass
        assert process.worker.standing.look()
        assert process.worker.standing.rousals == 0
        assert rouse.incarnation() == seen
        found = default.check()
        assert found is not None, "the detector that has no pulse takes it for one"
        assert found.kind is rouse.Kind.FROZEN
        process.worker.stop()
        await working

    asyncio.run(check())
