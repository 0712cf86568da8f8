"""Lingering: a run that can only wait keeps its lease for a moment, and loses nothing at its end (G7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.labs import FaultyStore, Hold, commits_of, on, once
from torpor import App, Context
from torpor.core.wait import Open, WaitKind
from torpor.worker import roles
from torpor.worker.linger import Linger

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run
    from torpor.worker.worker import Worker

app = App()
LONG_SECONDS = 3600.0
SHORT_SECONDS = 0.001


@app.flow
async def listener(ctx: Context) -> Any:
    """Receive one message."""
    return await ctx.receive("go")


@app.flow
async def asker(ctx: Context) -> Any:
    """Ask a person."""
    return bool(await ctx.approval("Go?"))


@app.flow
async def sleeper(ctx: Context) -> str:
    """Sleep for longer than anybody lingers."""
    await ctx.sleep(10)
    return "slept"


@app.flow
async def patient(ctx: Context) -> Any:
    """Receive one message, with a timeout."""
    async with asyncio.timeout(7200):
        return await ctx.receive("go")


class Lingering(set[roles.Linger]):
    """The runs that linger, and an event for whoever waits that one does."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self.one = asyncio.Event()

    def add(self, item: roles.Linger) -> None:
        """Tell."""
        super().add(item)
        self.one.set()


async def lingers(lab: Lab, seconds: float) -> tuple[Worker, Lingering]:
    """Return the lab's worker, that lingers for so long, and those that linger."""
    worker = await lab.worker()
    worker.linger_seconds = seconds
    lingering = Lingering()
    worker.lingering = lingering
    return worker, lingering


async def claims(lab: Lab, run: Run) -> int:
    """Return how often a run was claimed."""
    rows = await lab.store.transact(lambda tx: tx.get_runs([run.number]))
    epoch: int = rows[run.number].epoch
    return epoch


async def kinds(lab: Lab, run: Run) -> list[str]:
    """Return the kinds of a run's entries."""
    return [line.kind for line in await lab.journal(run)]


def test_a_signal_that_comes_meanwhile_finds_the_run_hot(store: Store, moment: Moment) -> None:
    """It is consumed under the same lease; nothing was written in between."""

    async def check(lab: Lab) -> None:
        _, lingering = await lingers(lab, LONG_SECONDS)
        run = await lab.start(listener)
        await lingering.one.wait()
        await lab.signal(run, "go", 7)
        assert await lab.result(run) == 7
        assert await claims(lab, run) == 1
        assert await kinds(lab, run) == ["consumed", "outcome"]
        assert not lingering

    on(store, moment, app, check)


def test_a_decision_that_comes_meanwhile_finds_the_run_hot(store: Store, moment: Moment) -> None:
    """As a signal."""

    async def check(lab: Lab) -> None:
        _, lingering = await lingers(lab, LONG_SECONDS)
        run = await lab.start(asker)
        await lingering.one.wait()
        await lab.approve(run)
        assert await lab.result(run) is True
        assert await claims(lab, run) == 1

    on(store, moment, app, check)


def test_news_that_nobody_waits_for_end_nothing(store: Store, moment: Moment) -> None:
    """The run lingers on, and cancel finds it."""

    async def check(lab: Lab) -> None:
        _, lingering = await lingers(lab, LONG_SECONDS)
        run = await lab.start(listener)
        await lingering.one.wait()
        lingering.one.clear()
        await lab.signal(run, "other", 1)
        await lingering.one.wait()
        assert await lab.state(run) == "running"
        await lab.cancel(run)
        await lab.settle()
        assert await lab.state(run) == "cancelled"
        assert await claims(lab, run) == 1

    on(store, moment, app, check)


class _ByHand:
    """A worker and its loop, as far as a run that lingers knows them: time is moved by hand."""

    others_wait = False
    room = True
    linger_seconds = 0.05

    def __init__(self) -> None:
        """Begin at zero."""
        self.at = 0.0
        self.lingering: set[roles.Linger] = set()
        self.loop = self
        self.pauses: list[float] = []

    def time(self) -> float:
        """Return the loop's time."""
        return self.at

    def now(self) -> int:
        """Return the store's time."""
        return round(self.at * 1e6)

    def call_later(self, pause: float, _again: Any) -> _ByHand:
        """Note for how long."""
        self.pauses.append(round(pause, 6))
        return self

    def cancel(self) -> None:
        """Be a timer that is cancelled."""


def test_the_moment_is_counted_from_its_beginning() -> None:
    """Whatever is heard meanwhile makes it no longer; a timer that is due within it is waited for; an end begins anew."""
    worker: Any = _ByHand()
    linger = Linger(worker, lambda: None)
    message = Open("m", WaitKind.MESSAGE, "go")
    assert linger.stay([message])
    worker.at = 0.03
    assert linger.stay([message])
    assert linger.stay([message, Open("t", WaitKind.TIMER, due_at=40_000)])
    assert linger.stay([message, Open("t", WaitKind.TIMER, due_at=60_000)])
    assert worker.pauses == [0.05, 0.02, 0.01, 0.02]
    assert not linger.stay([Open("t", WaitKind.TIMER, due_at=60_000)])
    worker.at = 0.05
    assert not linger.stay([message])
    linger.end()
    assert worker.lingering == set()
    assert linger.stay([message])
    worker.room = False
    assert not linger.stay([message])


@pytest.mark.parametrize("flow", [listener, asker, patient])
def test_when_nothing_comes_the_run_is_put_away(store: Store, moment: Moment, flow: Any) -> None:
    """The lease is given up, and what comes later wakes the run."""

    async def check(lab: Lab) -> None:
        _, lingering = await lingers(lab, SHORT_SECONDS)
        run = await lab.start(flow)
        await lab.settle()
        assert lingering.one.is_set()
        assert not lingering
        assert await lab.state(run) == "waiting"
        assert await lab.store.transact(lambda tx: tx.leases([run.number])) == {}
        if flow is asker:
            await lab.approve(run)
        else:
            await lab.signal(run, "go", value=True)
        assert await lab.result(run) is True
        assert await claims(lab, run) == 2

    on(store, moment, app, check)


def test_a_signal_during_the_commit_that_ends_it_is_not_lost(store: Store, moment: Moment) -> None:
    """The transaction that puts the run away finds it: the run is ready at once (G7)."""
    faulty, hold = FaultyStore(store), Hold()
    faulty.fault = once(commits_of("wait"), hold)

    async def check(lab: Lab) -> None:
        await lingers(lab, SHORT_SECONDS)
        run = await lab.start(listener)
        await hold.reached.wait()
        await lab.signal(run, "go", 7)
        hold.released.set()
        assert await lab.result(run) == 7
        assert await claims(lab, run) == 2

    on(faulty, moment, app, check)


def test_a_wait_for_time_alone_is_not_lingered_at(store: Store, moment: Moment) -> None:
    """Nothing can come that ends it sooner."""

    async def check(lab: Lab) -> None:
        _, lingering = await lingers(lab, 5.0)
        run = await lab.start(sleeper)
        await lab.settle()
        assert await lab.state(run) == "waiting"
        assert not lingering.one.is_set()

    on(store, moment, app, check)


def test_a_worker_without_room_does_not_linger(store: Store, moment: Moment) -> None:
    """Whoever takes the last place away ends the lingering of the others, and does not linger."""

    async def check(lab: Lab) -> None:
        _, lingering = await lingers(lab, LONG_SECONDS)
        first = await lab.start(listener)
        await lingering.one.wait()
        second = await lab.start(listener)
        while await lab.state(first) != "waiting":
            await lab.change()
        await lab.signal(second, "go", 2)
        assert await lab.result(second) == 2
        assert await claims(lab, first) == 1
        await lab.signal(first, "go", 1)
        assert await lab.result(first) == 1

    on(store, moment, app, check, concurrency=2)


def test_a_worker_with_one_place_works_off_those_that_wait(store: Store, moment: Moment) -> None:
    """None keeps the place from the next one."""

    async def check(lab: Lab) -> None:
        _, lingering = await lingers(lab, LONG_SECONDS)
        some = [await lab.start(listener) for _ in range(4)]
        await lab.settle()
        assert [await lab.state(run) for run in some] == ["waiting"] * 4
        assert not lingering.one.is_set()

    on(store, moment, app, check, concurrency=1)


def test_a_drain_puts_the_run_away(store: Store, moment: Moment) -> None:
    """Nobody needs to go on with it: it waits, it is not ready."""

    async def check(lab: Lab) -> None:
        _, lingering = await lingers(lab, LONG_SECONDS)
        run = await lab.start(listener)
        await lingering.one.wait()
        await lab.drain()
        assert await lab.state(run) == "waiting"
        assert await kinds(lab, run) == ["wait"]
        await lab.signal(run, "go", 3)
        assert await lab.result(run) == 3

    on(store, moment, app, check)
