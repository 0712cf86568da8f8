"""A callback of an author's that fails after a rousal: the worker is shut, says so, mends, or ends (docs/decisions/0014)."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from tests.worker.counter import COUNTER
from tests.worker.labs import until
from torpor import App, Context, rouse
from torpor.client import Client
from torpor.core.ids import parse_run
from torpor.errors import StoreUnavailable
from torpor.runtime import Process
from torpor.testing import showing
from torpor.waker import Waker
from torpor.worker.exposition import text
from torpor.worker.measured import Counters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.stores import Place

app = App()
_events: dict[str, asyncio.Event] = {}


@app.step
async def waits() -> str:
    """Run until the test says so."""
    _events["entered"].set()
    await _events["leave"].wait()
    return "done"


@app.effect(safety="once")
async def acts() -> int:
    """Act, and count it."""
    COUNTER.act()
    return COUNTER.count


@app.flow
async def works(ctx: Context) -> object:
    """Be in a step, then act."""
    return await ctx.step(waits), await ctx.effect(acts)


class Reseeding:
    """An author's callback, which fails while it is `broken`."""

    def __init__(self) -> None:
        """Be broken."""
        self.broken = True
        self.calls = 0

    def __call__(self, _rousal: rouse.Rousal) -> None:
        """Reseed, or not."""
        self.calls += 1
        if self.broken:
            raise ValueError("no entropy")


@pytest.fixture
def place(make_place: Callable[[str], Place]) -> Iterator[Place]:
    """Return a fresh file, and leave the process's registry sound."""
    COUNTER.clear()
    yield make_place("sqlite")
    rouse.mend()


@asynccontextmanager
async def at_work(
    place: Place,
    *,
    app: App = app,
    registry: rouse.Registry = rouse.process_registry,
    shut_seconds: float = 600.0,
    by_hand: bool = True,
    ends: list[BaseException] | None = None,
) -> AsyncIterator[tuple[Process, ClocksByHand, asyncio.Task[None]]]:
    """Start a worker and a waker on clocks that are moved by hand; told to stop at the end, if they still work.

    What they ended with is put into `ends`, or raised.
    """
    _events.update(entered=asyncio.Event(), leave=asyncio.Event())
    hand = ClocksByHand()
    process = Process(place.open(), app, shut_seconds=shut_seconds)
    process.worker.registry = registry
    if by_hand:
        process.worker.clocks = hand.clocks
        process.waker = Waker(process.store, clocks=hand.clocks)
        process.worker.on_due, process.waker.on_ready = process.waker.soon, process.worker.wake
        process.waker.on_away = process.worker.look_now.set
    working = asyncio.create_task(process.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await process.worker.ready.wait()
        yield process, hand, working
        process.worker.stop()
        await asyncio.wait([working])
        error = working.exception()
        if error is not None and ends is None:
            raise error
        if error is not None and ends is not None:
            ends.append(error)


def journal(place: Place, run: str) -> list[str]:
    """Return the kinds of a run's entries, and their epochs."""
    number = parse_run(run)[1]
    found: list[str] = place.open().transact_now(lambda tx: [f"{e.kind} {e.epoch}" for e in showing.lines(tx, number)])
    return found


async def another_acts(place: Place, run: str) -> None:
    """Nobody has acted; let another worker go on, in a sound registry: it acts, once, under the next epoch."""
    assert COUNTER.count == 0
    async with at_work(place, registry=rouse.Registry()):
        _events["leave"].set()
        assert await Client(place.open()).result(run) == ("done", 1)
    assert journal(place, run)[-1] == "outcome 2"


DONE = ["outcome 1", "intent 1", "outcome 1", "outcome 1"]


def test_a_worker_that_tells_nobody_acts_in_a_process_that_is_not_sound(place: Place) -> None:
    """The fault: with a registry of its own it goes on, though what the author said must be done first was not done."""

    async def check() -> None:
        reseeding = Reseeding()
        failing = rouse.on_rousal(reseeding, phase=rouse.Phase.RESEED)
        try:
            async with at_work(place, registry=rouse.Registry()) as (process, hand, _):
                run = (await Client(place.open()).start("works")).run_id
                await _events["entered"].wait()
                hand.suspend(60)
                assert not process.worker.standing.look()
                _events["leave"].set()
                assert await Client(place.open()).result(run) == ("done", 1)
                assert reseeding.calls == 0
        finally:
            failing.take_back()

    asyncio.run(check())


def test_a_shut_worker_does_nothing_until_it_is_mended(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """No commit, no effect, no claim; then what was done before is recorded under the lease that it had (G2)."""
    caplog.set_level(logging.WARNING, logger="torpor")

    async def check() -> str:
        reseeding = Reseeding()
        failing = rouse.on_rousal(reseeding, phase=rouse.Phase.RESEED)
        try:
            async with at_work(place) as (process, hand, _):
                standing, client = process.worker.standing, Client(place.open())
                run = (await client.start("works")).run_id
                await _events["entered"].wait()
                before = journal(place, run)
                hand.suspend(60)
                assert not standing.look()
                _events["leave"].set()
                other = (await client.start("works")).run_id
                await until(lambda: reseeding.calls == 3)  # it was tried again, twice
                assert "Reseeding object" in standing.shut
                assert "no entropy" in standing.shut
                assert journal(place, run) == before
                assert journal(place, other) == []
                assert COUNTER.count == 0
                assert "\ntorpor_worker_shut 1\n" in text(Counters(), 2, None, None, standing)
                reseeding.broken = False
                assert await client.result(run) == ("done", 1)
                assert await client.result(other) == ("done", 2)
                assert journal(place, run) == DONE
                assert (standing.shut, standing.rousals) == ("", 1)
                assert "\ntorpor_worker_shut 0\n" in (page := text(Counters(), 0, None, None, standing))
                assert "\ntorpor_rousals_total 1\n" in page
                return process.worker.name
        finally:
            failing.take_back()

    name = asyncio.run(check())
    said = [line for record in caplog.records if f"worker='{name}'" in (line := record.getMessage())]
    assert sum("event='shut'" in line and "no entropy" in line for line in said) == 1
    assert sum("event='roused'" in line for line in said) == 1
    assert any("event='open again'" in line for line in said)


class Panic(BaseException):
    """What a library in Rust raises."""


@pytest.mark.parametrize("error", [Panic("no entropy"), SystemExit("no"), asyncio.CancelledError()], ids=repr)
def test_whatever_a_callback_raises_shuts_it(place: Place, error: BaseException) -> None:
    """Also what is no `Exception`: it says which callback, tries again, and goes on once that succeeds."""
    raises = [error, error]

    def reseeds(_rousal: rouse.Rousal) -> None:
        if raises:
            raise raises.pop()

    async def check() -> None:
        failing = rouse.on_rousal(reseeds, phase=rouse.Phase.RESEED)
        try:
            async with at_work(place) as (process, hand, working):
                standing = process.worker.standing
                run = (await Client(place.open()).start("works")).run_id
                await _events["entered"].wait()
                hand.suspend(60)
                assert not standing.look()
                await until(lambda: standing.shut or working.done())
                assert re.search(rf"callback .*reseeds failed in RESEED .*{type(error).__name__}", standing.shut)
                _events["leave"].set()
                assert await Client(place.open()).result(run) == ("done", 1)
                assert standing.shut == ""
        finally:
            failing.take_back()

    asyncio.run(check())


def test_a_worker_that_stays_shut_ends_and_others_go_on(place: Place) -> None:
    """It says why; the run it held is another worker's at once, long before its lease would have ended (G13)."""

    async def check() -> None:
        failing = rouse.on_rousal(Reseeding(), phase=rouse.Phase.RESEED)
        ends: list[BaseException] = []
        try:
            async with at_work(place, shut_seconds=0.3, ends=ends) as (process, hand, working):
                run = (await Client(place.open()).start("works")).run_id
                await _events["entered"].wait()
                hand.suspend(60)
                assert not process.worker.standing.look()
                await asyncio.wait([working])
        finally:
            failing.take_back()
        assert [type(end) for end in ends] == [StoreUnavailable]
        assert re.search(r"its gate was shut for \d\.\d s: callback .* failed in RESEED .*no entropy", str(ends[0]))
        await another_acts(place, run)

    asyncio.run(check())


def test_a_worker_that_begins_in_such_a_process_is_shut(place: Place) -> None:
    """Who begins after the phases failed was not there when it was told, and asks all the same."""
    reseeding = Reseeding()
    life = rouse.incarnation()
    failing = rouse.on_rousal(reseeding, phase=rouse.Phase.RESEED)

    async def check() -> None:
        async with at_work(place) as (process, _, _working):
            run = (await Client(place.open()).start("works")).run_id
            await until(lambda: process.worker.standing.shut)
            assert journal(place, run) == []
            reseeding.broken = False
            _events["leave"].set()
            assert await Client(place.open()).result(run) == ("done", 1)

    try:
        with pytest.raises(rouse.RousalFailed):
            rouse.process_registry.tell(rouse.Rousal(rouse.Kind.SLEPT, 60.0, ("by hand",), life, life, noticed_at=0))
        asyncio.run(check())
    finally:
        failing.take_back()


def test_a_shut_worker_that_is_told_to_stop_ends(place: Place) -> None:
    """SIGTERM waits neither for the limit nor for what cannot be recorded now."""

    async def check() -> None:
        failing = rouse.on_rousal(Reseeding(), phase=rouse.Phase.RESEED)
        ends: list[BaseException] = []
        try:
            async with at_work(place, ends=ends) as (process, hand, _):
                await Client(place.open()).start("works")
                await _events["entered"].wait()
                hand.suspend(60)
                await until(lambda: process.worker.standing.shut)
        finally:
            failing.take_back()
        assert "no entropy" in str(ends[0])

    asyncio.run(check())


def test_the_last_try_need_not_come_to_its_end(place: Place) -> None:
    """Its callback has failed before; in the last try there is no time left for it: it ends for what failed."""
    over = threading.Event()

    class Slow(Reseeding):
        def __call__(self, rousal: rouse.Rousal) -> None:
            if self.calls:
                over.wait(PATIENCE_SECONDS)
            super().__call__(rousal)

    async def check() -> None:
        failing = rouse.on_rousal(Slow(), phase=rouse.Phase.RESEED)
        ends: list[BaseException] = []
        try:
            async with at_work(place, shut_seconds=0.2, ends=ends) as (process, hand, working):
                hand.suspend(60)
                process.worker.look_now.set()
                await asyncio.wait([working])
        finally:
            over.set()
            failing.take_back()
        assert "failed in RESEED" in str(ends[0])
        assert "no entropy" in str(ends[0])

    asyncio.run(check())


def test_one_event_is_told_once(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The author's `rouse.watch()`, the worker and the waker share a registry: the first to notice tells."""
    generation = tmp_path / "generation"
    monkeypatch.setenv("ROUSE_HOST_FILE", str(generation))
    told: list[str] = []
    heard = rouse.on_rousal(lambda rousal: told.extend(each for each in rousal.evidence if "generation" in each))
    watch = rouse.watch()

    async def check() -> None:
        async with at_work(place, by_hand=False) as (process, _, _working):
            standing = process.worker.standing
            for number in (1, 2):
                (tmp_path / "new").write_text(f"generation {number}", encoding="utf-8")
                (tmp_path / "new").replace(generation)
                await until(partial(lambda number: len(told) >= number and standing.rousals >= number, number))
                watch.watcher.check()
                standing.look()
                assert await standing.restore()
                assert standing.look()
                process.waker.soon(1)
                await until(lambda: process.waker._quiet_until)  # noqa: SLF001 - the waker noticed, too
                assert len(told) == number

    try:
        asyncio.run(check())
    finally:
        watch.stop()
        heard.take_back()


def test_the_waker_hears_of_what_somebody_else_noticed(place: Place) -> None:
    """A timer that fell due in the sleep is looked for at once, whoever told of the sleep (G8)."""

    async def check() -> None:
        async with at_work(place) as (process, _, _working):
            life = rouse.incarnation()
            assert process.waker._quiet_until == 0  # noqa: SLF001 - nothing else shows it
            rouse.process_registry.tell(rouse.Rousal(rouse.Kind.SLEPT, 60.0, ("by hand",), life, life, noticed_at=0))
            await until(lambda: process.waker._quiet_until)  # noqa: SLF001 - as above

    asyncio.run(check())
