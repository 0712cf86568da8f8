"""C12: the event comes before the wait exists.

The matching signal is sent (a) before the run begins, (b) before the wait, (c) between the wait's look and its
registration, (d) twice, 1 ms apart, for two waits. Right: in a to c the run goes on at once, without its timeout; in d each
signal satisfies one wait, in the order of arrival. A signal that nobody asks for is kept, stays after the run's end, and
`torpor show` lists it. A signal to a run that does not exist is an error.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.cases.preparing import TIMEOUT_SECONDS, gate, prepare
from tests.conformance.meeting import Beside
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import FaultyStore, Hold, commits_of, on, once
from torpor import App, Conflict, Context, NotFound
from torpor.client import Client
from torpor.engine import waits
from torpor.store import values
from torpor.store.protocol import Lane
from torpor.store.rows import Kept, NewSignal
from torpor.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment, Place
    from torpor.store.protocol import Store, Tx
    from torpor.testing import Lab, Run

T = TypeVar("T")
app = App()


@app.flow
async def hears(ctx: Context) -> Any:
    """Wait for one signal, not for ever."""
    return await _hear(ctx)


@app.flow
async def prepares_then_hears(ctx: Context) -> Any:
    """Do something before the wait."""
    await ctx.step(prepare)
    return await _hear(ctx)


async def _hear(ctx: Context) -> Any:
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await ctx.receive("go")
    except TimeoutError:
        return "timed out"


@app.flow
async def hears_two(ctx: Context) -> list[Any]:
    """Wait for two signals of one name at once."""
    return list(await asyncio.gather(ctx.receive("go"), ctx.receive("go")))


async def at_once(lab: Lab, run: Run, value: Any) -> None:
    """The run has heard the value, and no time has passed."""
    before = lab.now
    await lab.settle()
    assert await lab.state(run) == "completed"
    assert await lab.result(run) == value
    assert lab.now == before


def test_an_early_signal_is_kept(place: Place, moment: Moment) -> None:
    """(a) Before any worker has seen the run (G7)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears)
        await lab.signal(run, "go", "early")
        await at_once(lab, run, "early")

    on(place.open(), moment, app, check)


def test_a_signal_to_no_run_is_an_error(place: Place, moment: Moment) -> None:
    """(a) Before the run exists nothing can be kept, and the sender is told so."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears)
        client = Client(lab.store)
        with pytest.raises(NotFound, match="there is no run"):
            await client.signal("hears-ZZZZ", "go", 1)
        await lab.cancel(run)
        await lab.settle()
        with pytest.raises(Conflict, match="nothing was kept"):
            await client.signal(run.name, "go", 1)

    on(place.open(), moment, app, check)


def test_a_signal_before_the_wait_is_kept(place: Place, moment: Moment) -> None:
    """(b) The run is at work, and has not asked for it yet (G7)."""

    async def check(lab: Lab) -> None:
        entered, leave = gate()
        run = await lab.start(prepares_then_hears)
        settling = asyncio.create_task(lab.settle())
        await entered.wait()
        await lab.signal(run, "go", "before")
        leave.set()
        await settling
        await at_once(lab, run, "before")

    on(place.open(), moment, app, check)


def test_a_signal_between_look_and_registration_is_seen(place: Place, moment: Moment) -> None:
    """(c) The worker has looked, found nothing, and is about to register the wait: the commit notices (G7)."""
    faulty, hold = FaultyStore(place.open()), Hold()
    faulty.fault = once(commits_of("wait"), hold)

    async def check(lab: Lab) -> None:
        run = await lab.start(hears)
        settling = asyncio.create_task(lab.settle())
        await hold.reached.wait()
        await lab.signal(run, "go", "between")
        hold.released.set()
        await settling
        await at_once(lab, run, "between")

    on(faulty, moment, app, check)


class OpenSuspend(FaultyStore):
    """Holds the first commit that registers a wait inside its transaction: everything written, nothing committed."""

    def __init__(self, store: Store, fits: Callable[[Any, tuple[Any, ...]], bool] | None = None) -> None:
        """Hold nothing yet."""
        super().__init__(store)
        self.open, self._close = threading.Event(), threading.Event()
        self._fits = fits or commits_of("wait")

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Hold it if it is the one."""
        if self.open.is_set() or not self._fits(op, args):
            return await super().transact(op, *args, lane=lane, **more)

        def held(tx: Tx) -> T:
            value = op(tx, *args, **more)
            self.open.set()
            assert self._close.wait(PATIENCE_SECONDS)
            return value

        return await self._store.transact(held, lane=lane)

    def let_go(self) -> None:
        """Let it be committed."""
        self._close.set()


def test_a_signal_behind_an_open_registration_wakes_the_run(place: Place, moment: Moment) -> None:
    """(c) The wait is being registered and not yet visible; the signal waits for it, and wakes the run (G7)."""
    holding, other = OpenSuspend(place.open()), place.open()

    async def check(lab: Lab) -> None:
        run = await lab.start(hears)
        settling = asyncio.create_task(lab.settle())
        assert await asyncio.to_thread(holding.open.wait, PATIENCE_SECONDS)
        body = values.encode("behind", path="value")
        signal = Beside(lambda: other.transact_now(waits.signal, [NewSignal(run.number, "go", body)]))
        await asyncio.to_thread(is_behind, place, other)
        holding.let_go()
        assert await asyncio.to_thread(signal.result) == [Kept.NEW]
        await settling
        await at_once(lab, run, "behind")

    on(holding, moment, app, check)


def is_behind(place: Place, other: Store) -> None:
    """Wait until the other store waits for a lock: of a row, or for its turn to write."""
    if place.on_server:
        place.blocked()
    else:
        assert isinstance(other, SqliteStore)
        while not other.contended:
            pass


@pytest.mark.parametrize("when", ["before the waits", "while it waits"])
def test_two_signals_satisfy_two_waits_in_order(place: Place, moment: Moment, when: str) -> None:
    """(d) Sent a millisecond apart: each satisfies one wait, the first one the older (G7)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears_two)
        if when == "while it waits":
            await lab.settle()
            assert await lab.state(run) == "waiting"
        await lab.signal(run, "go", "first")
        lab.advance(0.001)
        await lab.signal(run, "go", "second")
        await at_once(lab, run, ["first", "second"])

    on(place.open(), moment, app, check)


def test_a_signal_nobody_asks_for_is_kept_and_shown(place: Place, moment: Moment) -> None:
    """While the run lives and after its end: what came and was never used can be seen."""

    async def check(lab: Lab) -> None:
        run = await lab.start(hears)
        await lab.settle()
        client = Client(lab.store)
        assert await client.signal(run.name, "stray", {"n": 1}, sender="ada")
        for _ in ("while it waits", "after its end"):
            await lab.settle()
            shown = await client.show(run.name)
            assert [(s.name, s.value, s.sender) for s in shown.unread] == [("stray", {"n": 1}, "ada")]
            await lab.signal(run, "go", "heard")
        assert await lab.result(run) == "heard"
        shown = await client.show(run.name)
        assert [(message.name, message.value) for message in shown.heard] == [("go", "heard")]

    on(place.open(), moment, app, check)
