"""C12, with events that are published for whoever waits: the event comes before the wait exists.

It is published (a) before the run is started, (b) before the wait, (c) between the wait's look-up and its registration,
held there, and the other way round, (d) twice, 1 ms apart, for two waits. Right: in a to c the run goes on at once,
without its timeout; in d each event satisfies one wait, in the order of arrival. An event is kept for a day, and one that
expired and reached nobody can be seen (tests/worker/test_events.py).
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.preparing import TIMEOUT_SECONDS, gate, prepare
from tests.cases.test_c12_early_event import OpenSuspend, at_once, is_behind
from tests.conformance.meeting import Beside
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import commits_of, on
from torpor import App, Context
from torpor.client import Client
from torpor.engine import events
from torpor.store import values

if TYPE_CHECKING:
    from tests.stores import Moment, Place
    from torpor.store.protocol import Tx
    from torpor.testing import Lab

app = App()


@app.flow
async def hears(ctx: Context) -> Any:
    """Wait for one event, not for ever."""
    return await _hear(ctx)


@app.flow
async def prepares_then_hears(ctx: Context) -> Any:
    """Do something before the wait."""
    await ctx.step(prepare)
    return await _hear(ctx)


async def _hear(ctx: Context) -> Any:
    try:
        return await ctx.event("paid", where={"order": 1}, expires=TIMEOUT_SECONDS)
    except TimeoutError:
        return "timed out"


@app.flow
async def hears_two(ctx: Context) -> list[Any]:
    """Wait for two events at once."""
    return list(await asyncio.gather(*(ctx.event("paid", where={"order": 1}) for _ in range(2))))


def event(n: int) -> dict[str, int]:
    """Return the value of a matching event."""
    return {"order": 1, "n": n}


def test_an_event_before_the_run_is_kept(place: Place, moment: Moment) -> None:
    """(a) It finds its wait a while later (G7)."""

    async def check(lab: Lab) -> None:
        await Client(lab.store).publish("paid", event(1))
        lab.advance(3600)
        await at_once(lab, await lab.start(hears), event(1))

    on(place.open(), moment, app, check)


def test_an_event_before_the_wait_is_kept(place: Place, moment: Moment) -> None:
    """(b) The run is at work, and has not asked for it yet (G7)."""

    async def check(lab: Lab) -> None:
        entered, leave = gate()
        run = await lab.start(prepares_then_hears)
        settling = asyncio.create_task(lab.settle())
        await entered.wait()
        await Client(lab.store).publish("paid", event(1))
        leave.set()
        await settling
        await at_once(lab, run, event(1))

    on(place.open(), moment, app, check)


def test_an_event_behind_an_open_registration_wakes_the_run(place: Place, moment: Moment) -> None:
    """(c) The wait has looked for early events and is not visible yet; the event waits for it, and wakes the run (G7)."""
    holding, other = OpenSuspend(place.open(), commits_of("wait paid#1")), place.open()
    body = values.encode(event(1))

    async def check(lab: Lab) -> None:
        run = await lab.start(hears)
        settling = asyncio.create_task(lab.settle())
        assert await asyncio.to_thread(holding.open.wait, PATIENCE_SECONDS)
        published = Beside(lambda: other.transact_now(events.publish, "paid", body))
        await asyncio.to_thread(is_behind, place, other)
        holding.let_go()
        assert (await asyncio.to_thread(published.result)).reached == 1
        await settling
        await at_once(lab, run, event(1))

    on(holding, moment, app, check)


def test_a_registration_behind_an_open_event_finds_it(place: Place, moment: Moment) -> None:
    """(c) The fan-out has looked for waits and is not visible yet; the registration waits for it, and finds it (G7)."""
    store, other = place.open(), place.open()
    looked, close = threading.Event(), threading.Event()

    def held(tx: Tx) -> events.Published:
        done = events.publish(tx, "paid", values.encode(event(1)))
        looked.set()
        assert close.wait(PATIENCE_SECONDS)
        return done

    async def check(lab: Lab) -> None:
        entered, leave = gate()
        run = await lab.start(prepares_then_hears)
        settling = asyncio.create_task(lab.settle())
        await entered.wait()
        published = Beside(lambda: other.transact_now(held))
        assert await asyncio.to_thread(looked.wait, PATIENCE_SECONDS)
        leave.set()
        await asyncio.to_thread(is_behind, place, store)
        close.set()
        assert (await asyncio.to_thread(published.result)).reached == 0
        await settling
        await at_once(lab, run, event(1))

    on(store, moment, app, check)


@pytest.mark.parametrize("when", ["before the waits", "while it waits"])
def test_two_events_satisfy_two_waits_in_order(place: Place, moment: Moment, when: str) -> None:
    """(d) A millisecond apart: each satisfies one wait, the first one the older (G7)."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(hears_two)
        if when == "while it waits":
            await lab.settle()
            assert await lab.state(run) == "waiting"
        await client.publish("paid", event(1))
        lab.advance(0.001)
        await client.publish("paid", event(2))
        await at_once(lab, run, [event(1), event(2)])

    on(place.open(), moment, app, check)
