"""Callbacks that take their time or never return, and looks that raise: the loop goes on, and the worker ends if it must."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.counter import COUNTER
from tests.worker.labs import until
from tests.worker.test_shut import DONE, _events, another_acts, at_work, journal
from torpor import rouse
from torpor.client import Client
from torpor.waker import Waker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stores import Place


class Hanging:
    """An author's callback that does not return before it is told to."""

    def __init__(self) -> None:
        """Hang at the first call."""
        self.called, self.leave, self.returned = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, _rousal: rouse.Rousal) -> None:
        """Hang."""
        self.called.set()
        self.leave.wait(PATIENCE_SECONDS / 2)
        self.returned.set()


@contextmanager
def registered(callback: Callable[[rouse.Rousal], None], registry: rouse.Registry) -> Iterator[None]:
    """Have it called after rousals."""
    made = registry.on_rousal(callback, phase=rouse.Phase.RESEED)
    try:
        yield
    finally:
        made.take_back()


@pytest.fixture
def place(make_place: Callable[[str], Place]) -> Place:
    """Return a fresh file."""
    COUNTER.clear()
    return make_place("sqlite")


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    """Return a callback that hangs until the test is over."""
    callback = Hanging()
    yield callback
    callback.leave.set()
    if callback.called.is_set():
        assert callback.returned.wait(PATIENCE_SECONDS)


@pytest.mark.slow
def test_nothing_is_done_before_a_slow_callback_has_returned(place: Place, hanging: Hanging) -> None:
    """The loop goes on meanwhile, but no commit, no effect and no claim of it does (G2)."""

    async def check() -> None:
        registry = rouse.Registry()
        with registered(hanging, registry):
            async with at_work(place, registry=registry) as (process, hand, _):
                client = Client(place.open())
                run = (await client.start("works")).run_id
                await _events["entered"].wait()
                before = journal(place, run)
                hand.suspend(60)
                await until(hanging.called.is_set)
                assert not hanging.returned.is_set()
                _events["leave"].set()
                other = (await client.start("works")).run_id
                await until(lambda: process.worker.standing.shut)
                assert "Hanging object" in process.worker.standing.shut
                assert process.worker.standing.shut.endswith("in RESEED has not returned")
                assert (journal(place, run), journal(place, other), COUNTER.count) == (before, [], 0)
                hanging.leave.set()
                assert await client.result(run) == ("done", 1)
                assert await client.result(other) == ("done", 2)
                assert journal(place, run) == DONE

    asyncio.run(check())


def test_a_worker_whose_callback_hangs_ends_and_others_go_on(place: Place, hanging: Hanging) -> None:
    """Nobody waits for the thread: neither the worker's end nor the loop's (G13)."""

    async def check() -> None:
        registry, ends = rouse.Registry(), list[BaseException]()
        with registered(hanging, registry):
            async with at_work(place, registry=registry, shut_seconds=0.3, ends=ends) as (_, hand, working):
                run = (await Client(place.open()).start("works")).run_id
                await _events["entered"].wait()
                hand.suspend(60)
                await asyncio.wait([working])
        assert not hanging.returned.is_set()
        assert "in RESEED has not returned" in str(ends[0])
        await another_acts(place, run)

    asyncio.run(check())
    assert not hanging.returned.is_set()


@pytest.mark.slow
def test_a_worker_whose_callback_hangs_can_be_told_to_stop(place: Place, hanging: Hanging) -> None:
    """SIGTERM is heard, and ends it long before its time is over."""

    async def check() -> None:
        registry, ends = rouse.Registry(), list[BaseException]()
        with registered(hanging, registry):
            async with at_work(place, registry=registry, ends=ends) as (_, hand, _working):
                await Client(place.open()).start("works")
                await _events["entered"].wait()
                hand.suspend(60)
                await until(hanging.called.is_set)
        assert "has not returned" in str(ends[0])

    asyncio.run(check())
    assert not hanging.returned.is_set()


@pytest.mark.slow
def test_the_time_of_the_callbacks_counts(place: Place) -> None:
    """A worker that may be shut for half a second does not call one that takes 0.4 s to fail four times."""
    never, calls = threading.Event(), list[int]()

    def slowly_fails(_rousal: rouse.Rousal) -> None:
        calls.append(len(calls))
        never.wait(0.4)
        raise ValueError("no entropy")

    async def check() -> None:
        registry, ends = rouse.Registry(), list[BaseException]()
        with registered(slowly_fails, registry):
            async with at_work(place, registry=registry, shut_seconds=0.5, ends=ends) as (_, hand, working):
                hand.suspend(60)
                await asyncio.wait([working])
        assert "no entropy" in str(ends[0]) or "has not returned" in str(ends[0])
        assert len(calls) <= 2

    asyncio.run(check())


@pytest.mark.slow
def test_time_away_in_a_callback_does_not_count(place: Place, hanging: Hanging) -> None:
    """The clock of the loop jumps by an hour while one runs: the process was frozen, and the worker has its time yet."""

    async def check() -> None:
        registry, loop, jumped = rouse.Registry(), asyncio.get_running_loop(), 0.0
        with registered(hanging, registry):
            async with at_work(place, registry=registry) as (process, hand, _):
                standing: Any = process.worker.standing
                standing._loop = SimpleNamespace(  # noqa: SLF001 - a clock by hand
                    run_in_executor=loop.run_in_executor, time=lambda: loop.time() + jumped
                )
                hand.suspend(60)
                await until(hanging.called.is_set)
                jumped = 3600.0
                await until(lambda: standing.shut)
                hanging.leave.set()
                await until(lambda: not standing.shut)
                assert not standing.gone

    asyncio.run(check())


class Failing:
    """A detector that raises so many times."""

    def __init__(self, times: int) -> None:
        """Raise that often, then find nothing."""
        self.times = times

    def __call__(self, _before: object, _now: object) -> None:
        """Raise, or find nothing."""
        if self.times > 0:
            self.times -= 1
            raise OverflowError("a word of the host's")


def test_a_look_that_raises_is_said_and_tried_again(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """It has found nothing, so nothing is done before the next one succeeds."""

    async def check() -> None:
        registry = rouse.Registry()
        async with at_work(place, registry=registry) as (process, _, _working):
            standing = process.worker.standing
            registry.detectors = (Failing(1),)
            assert not standing.look()
            assert await standing.restore()
            assert standing.look()
            _events["leave"].set()
            run = (await Client(place.open()).start("works")).run_id
            assert await Client(place.open()).result(run) == ("done", 1)

    caplog.set_level(logging.WARNING, logger="torpor")
    asyncio.run(check())
    assert sum("a look at the clocks failed" in record.getMessage() for record in caplog.records) == 1
    assert "OverflowError: a word of the host's" in caplog.text


def test_a_worker_that_cannot_look_ends(place: Place) -> None:
    """With the reason, after its time: never without its tick."""

    async def check() -> None:
        registry, ends = rouse.Registry(), list[BaseException]()
        async with at_work(place, registry=registry, shut_seconds=0.3, ends=ends) as (process, _, working):
            process.waker.on_away = None
            registry.detectors = (Failing(1_000_000),)
            await asyncio.wait([working])
        assert "the look at the clocks failed: OverflowError" in str(ends[0])

    asyncio.run(check())


def test_a_worker_whose_tick_fails_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises: a worker without a tick would not learn that it was given up."""

    def broken() -> None:
        raise ZeroDivisionError("a defect")

    async def check() -> None:
        ends = list[BaseException]()
        async with at_work(place, registry=rouse.Registry(), ends=ends) as (process, _, working):
            monkeypatch.setattr(process.store, "tend", broken)
            await asyncio.wait([working])
        assert "its tick failed: ZeroDivisionError('a defect')" in str(ends[0])

    asyncio.run(check())


def test_a_waker_sweeps_on_though_its_look_raises(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """It says so once, and still finds by the incarnation that somebody noticed something (G8)."""
    registry = rouse.Registry()
    registry.detectors = (Failing(3),)
    waker = Waker(place.open(), registry=registry)
    for _ in range(2):
        assert not waker._away()  # noqa: SLF001 - what each of its rounds begins with
    assert caplog.text.count("a look at the clocks failed") == 1
    life = rouse.incarnation()
    with registry.lock:
        registry.tell(rouse.Rousal(rouse.Kind.SLEPT, 60.0, ("by hand",), life, life, noticed_at=0))
    watcher = rouse.Watcher(registry=rouse.Registry())
    watcher.hear(rouse.Finding(rouse.Kind.SLEPT, "by hand", 60.0))
    assert waker._away()  # noqa: SLF001 - as above
