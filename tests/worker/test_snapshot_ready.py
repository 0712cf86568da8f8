"""What a host may rely on when it hears `ready`, and what becomes of a worker that is away or ends meanwhile."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, Hold, commits_of, once, until
from tests.worker.test_quiet import door, ended
from tests.worker.test_shut import at_work, journal
from torpor import App, Context, EffectContext, RateLimited, minutes, rouse
from torpor.client import Client
from torpor.core.ids import parse_run
from torpor.core.run import State
from torpor.engine import effects, leases, streams
from torpor.engine.commit import commit, find_out

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.stores import Place
    from tests.worker.labs import Fault
    from torpor.runtime import Process
    from torpor.worker.snapshot_door import Door

app = App()
EVENTS: dict[str, asyncio.Event] = {}
_threads: dict[str, threading.Event] = {}


@app.effect(safety="once")
async def acts(name: str) -> str:
    """Act for as long as the test wants."""
    COUNTER.act(name)
    EVENTS[f"{name} entered"].set()
    await EVENTS[f"{name} leave"].wait()
    return name


@app.effect(safety="transactional")
def books(_connection: object, number: int) -> int:
    """Act in the commit; the first one for as long as the test wants."""
    COUNTER.act(f"{number}")
    if number == 0:
        _threads["entered"].set()
        _threads["leave"].wait(PATIENCE_SECONDS)
    return number


@app.step
async def talks(ctx: EffectContext) -> str:
    """Say something, and be in a step."""
    ctx.emit("hello")
    await EVENTS["step leave"].wait()
    return "talked"


@app.flow
async def acts_twice(ctx: Context) -> list[str]:
    """Act, and act."""
    return [await ctx.effect(acts, "first"), await ctx.effect(acts, "second")]


@app.flow
async def talks_then_acts(ctx: Context) -> list[str]:
    """Be in a step, then act."""
    return [await ctx.step(talks), await ctx.effect(acts, "second")]


@app.effect(safety="once")
async def denies() -> str:
    """Say that it did not happen, and happen."""
    COUNTER.act()
    EVENTS["first entered"].set()
    await EVENTS["first leave"].wait()
    if COUNTER.count == 1:
        raise RateLimited("not now", retry_after=0.0)
    return "done"


@app.flow
async def denied_beside_a_step(ctx: Context) -> list[str]:
    """Be in a step and in an effect."""
    return list(await asyncio.gather(ctx.step(talks), ctx.effect(denies)))


@app.flow
async def shares(ctx: Context) -> int:
    """Take a place in a bucket."""
    await ctx.rate("mail", limit=10, per=minutes(1))
    return 1


@app.flow
async def books_many(ctx: Context) -> list[int]:
    """Act in three commits that are asked for at once, and in one after them."""
    return [*await asyncio.gather(*(ctx.effect(books, n) for n in range(3))), await ctx.effect(books, 3)]


class Faulty:
    """A place whose stores have a fault; what the test itself asks has none."""

    def __init__(self, place: Place, fault: Callable[[Any, tuple[Any, ...]], Fault]) -> None:
        """Open stores with this fault."""
        self._place, self._fault = place, fault

    def open(self) -> Any:
        """Return a store with the fault."""
        store = FaultyStore(self._place.open())
        store.fault = self._fault
        return store


@pytest.fixture
def fresh() -> Iterator[None]:
    """Begin with nothing, and leave the process's gate open."""
    COUNTER.clear()
    _threads.update(entered=threading.Event(), leave=threading.Event())
    yield
    rouse.no_snapshot()


@pytest.fixture
def place(make_place: Callable[[str], Place], fresh: None) -> Place:
    """Return a fresh file."""
    del fresh
    return make_place("sqlite")


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, make_place: Callable[[str], Place], fresh: None) -> Place:
    """Return a fresh file, or a fresh database on a server."""
    del fresh
    return make_place(request.param)


@asynccontextmanager
async def working_at(place: Any, **more: Any) -> AsyncIterator[tuple[Process, Door, Any, asyncio.Task[None]]]:
    """Start a worker, and a door to it."""
    names = [f"{name} {what}" for name in ("first", "second", "step") for what in ("entered", "leave")]
    EVENTS.update({name: asyncio.Event() for name in names})
    async with at_work(place, app=app, **more) as (process, hand, working):
        process.worker._quiet._seconds = 5.0  # noqa: SLF001 - long enough, and no test waits longer when it fails
        yield process, door(process), hand, working


async def waits(task: asyncio.Task[Any]) -> bool:
    """Whether something has not ended although it was given time."""
    return not await ended(_shielded(task))


async def _shielded(task: asyncio.Task[Any]) -> bool:
    await asyncio.shield(task)
    return True


async def state(place: Place, run: str) -> State:
    """Return a run's state."""
    number = parse_run(run)[1]
    return State((await place.open().transact(lambda tx: tx.get_runs([number])))[number].state)


def saying(host: Door, line: str = "before") -> asyncio.Task[str]:
    """Say a line, beside the test."""
    return asyncio.create_task(host.answer(line.split()))


# nothing is sent after `ready`


@pytest.mark.parametrize(
    ("flow", "held_back"),
    [("shares", leases.claim), ("shares", effects.commit_inside), ("talks_then_acts", streams.append)],
    ids=["claim", "shared", "stream"],
)
def test_ready_waits_for_what_was_sent(either: Place, flow: str, held_back: object) -> None:
    """A claim, a commit about something shared and a part of a stream count as an ordinary commit does."""

    async def check() -> None:
        held = Hold()
        passes = asyncio.Event()

        def fault(op: Any, args: tuple[Any, ...]) -> Fault:
            return first(op, args) if passes.is_set() else None

        first = once(lambda op, _args: op is held_back, held)
        async with working_at(Faulty(either, fault)) as (process, host, _, _working):
            passes.set()
            run = (await Client(either.open()).start(flow)).run_id
            await held.reached.wait()
            before = saying(host)
            assert await waits(before)
            held.released.set()
            assert await before == "ready"
            assert not process.worker.standing.sending
            assert await state(either, run) is State.RUNNING
            assert await host.answer(["none"]) == "open"
            EVENTS["step leave"].set()
            EVENTS["second leave"].set()
            await Client(either.open()).result(run)

    asyncio.run(check())


def test_ready_waits_for_a_commit_whose_answer_was_lost(either: Place) -> None:
    """Nobody knows yet whether it happened, and it may be sent again: so long nothing is at rest."""
    away, reached = [False], asyncio.Event()

    def fault(op: Any, _args: tuple[Any, ...]) -> Fault:
        if not away[0] or op not in {commit, find_out}:
            return None
        if op is find_out:
            reached.set()
        return "lost" if op is commit else "away"

    async def check() -> None:
        async with working_at(Faulty(either, fault)) as (process, host, _, _working):
            run = (await Client(either.open()).start("talks_then_acts")).run_id
            await until(lambda: process.worker.executors)
            away[0] = True
            EVENTS["step leave"].set()
            await reached.wait()
            before = saying(host)
            assert await waits(before)
            away[0] = False
            assert await before == "ready"
            assert await host.answer(["none"]) == "open"
            EVENTS["second leave"].set()
            assert await Client(either.open()).result(run) == ["talked", "second"]

    asyncio.run(check())


def test_what_did_not_happen_is_recorded_too(either: Place) -> None:
    """An attempt that said so is over, but its note waits for a commit that is under way."""

    async def check() -> None:
        held = Hold()
        fault = once(commits_of("outcome talks#1"), held)
        async with working_at(Faulty(either, fault)) as (process, host, _, _working):
            run = (await Client(either.open()).start("denied_beside_a_step")).run_id
            await EVENTS["first entered"].wait()
            EVENTS["step leave"].set()
            await held.reached.wait()
            before = saying(host)
            await until(lambda: process.worker.standing.pausing)
            EVENTS["first leave"].set()
            assert await waits(before)
            held.released.set()
            assert await before == "ready"
            assert journal(either, run)[:3] == ["intent 1", "outcome 1", "note 1"]
            assert await host.answer(["none"]) == "open"
            assert await Client(either.open()).result(run) == ["talked", "done"]

    asyncio.run(check())


# nothing begins after `before`


def test_no_effect_begins_in_its_commit_after_before(either: Place) -> None:
    """Neither one that was asked for already nor one that the code asks for next; all of them do after the snapshot."""

    async def check() -> None:
        async with working_at(either) as (process, host, _, _working):
            other = (await Client(either.open()).start("acts_twice")).run_id
            await EVENTS["first entered"].wait()
            run = (await Client(either.open()).start("books_many")).run_id
            await until(_threads["entered"].is_set)
            before = saying(host)
            await until(lambda: process.worker.standing.pausing)
            _threads["leave"].set()
            assert await waits(before), "the other run's effect acts"
            EVENTS["first leave"].set()
            assert await before == "ready"
            assert COUNTER.count == 2
            assert journal(either, run) == ["outcome 1"]
            assert await host.answer(["none"]) == "open"
            assert await Client(either.open()).result(run) == [0, 1, 2, 3]
            EVENTS["second leave"].set()
            assert await Client(either.open()).result(other) == ["first", "second"]
            assert COUNTER.count == 6

    asyncio.run(check())


# a worker that is away, gone, or told to stop


def test_a_worker_that_was_away_meanwhile_refuses_and_goes_on(place: Place) -> None:
    """Its gate must open before the outcome can be recorded: the `before` that shut it ends, and another one waits anew."""

    async def check() -> None:
        async with working_at(place) as (process, host, hand, _working):
            run = (await Client(place.open()).start("acts_twice")).run_id
            await EVENTS["first entered"].wait()
            before = [saying(host) for _ in range(3)]
            await until(lambda: process.worker.standing.pausing)
            hand.suspend(60)
            process.worker.look_now.set()
            assert (await before[0]).startswith("refused: the worker was away meanwhile")
            EVENTS["first leave"].set()
            assert [await one for one in before[1:]] == ["ready", "ready"]
            assert journal(place, run)[:2] == ["intent 1", "outcome 1"]
            assert await host.answer(["none"]) == "open"
            EVENTS["second leave"].set()
            assert await Client(place.open()).result(run) == ["first", "second"]
            assert (COUNTER.count, process.worker.standing.rousals) == (2, 1)

    asyncio.run(check())


def test_a_worker_that_is_gone_says_so(place: Place) -> None:
    """Nobody is there who could be quiet: a host that asks late is refused, with the reason."""

    async def check() -> None:
        gone: list[BaseException] = []
        async with working_at(place, shut_seconds=0.2, ends=gone) as (_process, host, _, working):
            assert await host.answer(["before"]) == "ready"
            await asyncio.wait([working])
            assert (await host.answer(["before"])).startswith("refused: this worker is gone: its gate was shut for ")
        assert gone

    asyncio.run(check())


async def at_the_gate(process: Process, place: Place, host: Door) -> tuple[asyncio.Task[str], list[str]]:
    """Return a `before` that waits for an effect that acts, and the runs: another one's effect waits behind its gate."""
    client = Client(place.open())
    runs = [(await client.start(flow)).run_id for flow in ("acts_twice", "talks_then_acts")]
    await EVENTS["first entered"].wait()
    await until(lambda: len(process.worker.executors) == 2)
    before = saying(host)
    await until(lambda: process.worker.standing.pausing)
    EVENTS["step leave"].set()
    await until(lambda: process.worker.gate.waiting)
    assert COUNTER.count == 1
    return before, runs


def test_one_that_is_told_to_stop_refuses_and_drains(place: Place) -> None:
    """What waits behind its gate begins in the drain, as without a `before`; nobody is asked about it."""

    async def check() -> None:
        async with working_at(place) as (process, host, _, working):
            before, runs = await at_the_gate(process, place, host)
            process.worker.stop()
            assert (await before).startswith("refused: this worker ends")
            await EVENTS["second entered"].wait()
            assert await host.answer(["before"]) == "refused: this worker ends"
            for leave in ("second leave", "first leave"):
                EVENTS[leave].set()
            await working
            assert journal(place, runs[1])[:3] == ["outcome 1", "intent 1", "outcome 1"]
            assert await state(place, runs[1]) is not State.WAITING

    asyncio.run(check())


def test_one_that_is_told_to_stop_when_it_is_quiet_waits_for_the_hosts_word(place: Place) -> None:
    """The snapshot may be under way, so nothing begins; once it is over the effect that waits acts in the drain."""

    async def check() -> None:
        async with working_at(place) as (process, host, _, working):
            before, runs = await at_the_gate(process, place, host)
            EVENTS["first leave"].set()
            assert await before == "ready"
            process.worker.look_now.set()
            await until(lambda: process.worker.standing.shut)
            process.worker.stop()
            process.worker.standing.try_now()  # not after a pause
            assert await waits(working)
            assert COUNTER.count == 1
            assert await host.answer(["before"]) == "refused: this worker ends"
            assert not rouse.process_registry.is_open, "the first host's snapshot is not called off"
            assert await host.answer(["none"]) == "open"
            EVENTS["second leave"].set()
            await working
            assert journal(place, runs[1])[:3] == ["outcome 1", "intent 1", "outcome 1"]

    asyncio.run(check())
