"""The lab that authors test in: it says what is wrong, kills without a trace, and forgets nothing."""

from __future__ import annotations

import asyncio
import gc
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import App, Conflict, Context, EffectContext, NeedsPerson, NotFound, RunCancelled, UsageError, days, seconds
from torpor.engine import leases
from torpor.testing import Clock, Lab, Place, Run
from torpor.testing.mortal import OWNER, Life, MortalStore, Plan, mortal_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.stores import Moment
    from torpor.store.protocol import Store

app = App()
TRACES: list[str] = []
REACHED: list[asyncio.Event] = []


@app.step
async def tidy() -> str:
    """Clean up after itself, if it is allowed to."""
    try:
        TRACES.append("begun")
        if REACHED:
            REACHED[0].set()
            await REACHED[1].wait()
        return "tidy"
    except BaseException:
        TRACES.append("except")
        raise
    finally:
        TRACES.append("finally")


@app.step
async def half_begun() -> str:
    """Start a task that is to await something it was given; the first time the worker dies before that begins."""

    async def given() -> str:
        return "begun"

    class Later:
        """A coroutine in the hands of an object, as a task group has it."""

        def __init__(self) -> None:
            self.promised = given()

        async def run(self) -> str:
            return await self.promised

    def start() -> tuple[asyncio.Task[str], asyncio.Task[str]]:
        promised = given()

        async def later() -> str:
            return await promised

        return asyncio.create_task(later()), asyncio.create_task(Later().run())

    going, held = start()
    life = OWNER.get()
    if not TRACES and life is not None:
        TRACES.append("killed")
        life.now()
    return await going and await held


@app.flow
async def begins(ctx: Context) -> str:
    """Run the step that begins something."""
    return await ctx.step(half_begun)


@app.effect(safety="keyed")
async def pay(ctx: EffectContext, amount: int) -> int:
    """Pay."""
    TRACES.append(f"paid {amount} {ctx.attempt}")
    return amount


@app.flow
async def tidies(ctx: Context) -> str:
    """Run the tidy step."""
    try:
        return await ctx.step(tidy)
    finally:
        TRACES.append("flow's finally")


@app.flow
async def asks(ctx: Context, title: str) -> Any:
    """Ask, pay, wait."""
    answer = await ctx.approval(title, show={"n": 1}, expires=days(2))
    if answer:
        await ctx.effect(pay, 5)
    await ctx.sleep(seconds(30))
    return answer.approved


def within(check: Callable[[Lab], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run a check in a lab."""

    async def main() -> None:
        async with Lab(app, **options) as lab:
            await check(lab)

    TRACES.clear()
    asyncio.run(main())


def test_a_killed_worker_leaves_no_trace() -> None:
    """Neither `except` nor `finally` of a killed step or flow runs, not then and not later."""

    async def check(lab: Lab) -> None:
        REACHED[:] = [asyncio.Event(), asyncio.Event()]
        run = await lab.start(tidies)
        await lab.worker()
        await REACHED[0].wait()
        await lab.kill()
        REACHED[1].set()
        REACHED.clear()
        gc.collect()
        assert TRACES == ["begun"]
        assert await lab.result(run) == "tidy"
        assert TRACES == ["begun", "begun", "finally", "flow's finally"]

    within(check)
    gc.collect()
    assert TRACES == ["begun", "begun", "finally", "flow's finally"]


def test_nobody_waits_for_what_a_killed_worker_had_sent() -> None:
    """It dies between two answers: the second comes to nobody, and who waits for quiet goes on."""

    class Slow:
        """A store that answers when it is told to."""

        def __init__(self) -> None:
            self.asked, self.answers = asyncio.Event(), asyncio.Event()

        async def transact(self, *_given: Any, **_more: Any) -> tuple[list[Any], list[Any]]:
            self.asked.set()
            await self.answers.wait()
            return [], []

    async def main() -> bool:
        asyncio.get_running_loop().set_task_factory(mortal_tasks)
        slow: Any = Slow()
        life = Life(lambda: None)
        store = MortalStore(slow, life, Plan(Place.UNDISTURBED, 0))
        token = OWNER.set(life)
        asking = asyncio.create_task(store.transact(leases.claim))
        OWNER.reset(token)
        await slow.asked.wait()
        quiet = asyncio.create_task(store.quiet())
        await asyncio.wait([quiet], timeout=0)
        life.now()
        slow.answers.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            was = await quiet
        await asyncio.wait(life.transactions)
        life.bury()
        await asyncio.wait([asking])
        return was

    assert asyncio.run(main())


def test_what_a_killed_worker_never_began_is_forgotten() -> None:
    """Nobody hears of a coroutine that was made, handed on, and never awaited."""

    async def check(lab: Lab) -> None:
        run = await lab.start(begins)
        assert await lab.result(run) == "begun"
        assert lab.deaths == 1
        gc.collect()

    within(check)
    gc.collect()


def test_settle_says_what_still_runs() -> None:
    """A step that takes too long is named, not waited for without end."""

    async def check(lab: Lab) -> None:
        REACHED[:] = [asyncio.Event(), asyncio.Event()]
        run = await lab.start(tidies)
        await lab.worker()
        await REACHED[0].wait()
        with pytest.raises(TimeoutError, match=f"{run} is running"):
            await lab.settle()
        REACHED[1].set()
        REACHED.clear()
        while await lab.state(run) != "completed":
            await lab.change()
        assert (await lab.journal(run))[-1].value == "tidy"

    within(check, patience_seconds=0.2)


def test_the_clock_stands_still_until_it_is_moved() -> None:
    """Also for what `ctx.now` says."""
    start = datetime(2031, 5, 1, 12, 0, tzinfo=UTC)

    async def check(lab: Lab) -> None:
        assert lab.now == start
        run = await lab.start(asks, "Ok?")
        await lab.settle()
        assert lab.now == start
        (approval, expiry) = (await lab.waits(run))[0], start + timedelta(days=2)
        assert approval.due_at == expiry
        await lab.pass_time(days(3))
        assert lab.now == start + timedelta(days=3)
        assert await lab.result(run) is False

    within(check, clock=Clock(start))


def test_result_needs_what_only_a_person_can_do() -> None:
    """It passes time for a timer, never for a question."""

    async def check(lab: Lab) -> None:
        run = await lab.start(asks, "Ok?")
        with pytest.raises(NeedsPerson, match=r"Ok\?"):
            await lab.result(run)
        await lab.approve()
        assert await lab.result(run) is True
        other = await lab.start(asks, "Ok?")
        await lab.cancel(other)
        with pytest.raises(RunCancelled):
            await lab.result(other)

    within(check)


def test_a_question_is_found_by_title_wait_or_run() -> None:
    """And several that fit are an error that lists what is open."""

    async def check(lab: Lab) -> None:
        one, two = await lab.start(asks, "One?"), await lab.start(asks, "Two?")
        await lab.settle()
        with pytest.raises(NotFound, match="2 open waits fit None; open: 'One\\?', 'Two\\?'"):
            await lab.approve()
        with pytest.raises(NotFound, match="0 open waits"):
            await lab.approve("Three?")
        await lab.approve("One?")
        (wait,) = [wait for wait in await lab.waits(two) if wait.for_person]
        await lab.deny(wait)
        with pytest.raises(Conflict):
            await lab.approve(wait)
        assert (await lab.result(one), await lab.result(two)) == (True, False)
        with pytest.raises(UsageError, match="is an answer"):
            await lab.answer(one, maybe=True)

    within(check)


def test_a_journal_can_be_printed() -> None:
    """A line for each entry, with what matters."""

    async def check(lab: Lab) -> None:
        run = await lab.start(asks, "Ok?")
        await lab.settle()
        await lab.approve(run, by="ada")
        await lab.result(run)
        lines = [str(line) for line in await lab.journal(run)]
        assert lines[0].startswith('  1 wait       approval#1 {"title": "Ok?"')
        assert any(line.split()[1:3] == ["intent", "pay#1"] for line in lines)
        assert lines[-1].split() == ["8", "outcome", "true"]
        (effect,) = await lab.effects(run)
        assert (effect.name, effect.state, effect.intents, list(effect.arguments), effect.result) == (
            "pay",
            "done",
            1,
            [5],
            5,
        )

    within(check)


def test_a_planned_crash_may_repeat() -> None:
    """`times` workers in a row are killed, each at its own point."""

    async def check(lab: Lab) -> None:
        run = await lab.start(tidies)
        lab.crash(Place.BEFORE, times=2)
        assert await lab.result(run) == "tidy"
        assert lab.deaths == 2
        assert TRACES.count("begun") == 3

    within(check)


def test_every_crash_tells_each_point_once() -> None:
    """The undisturbed run first, then each place's points in order, until one run has no such point."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        await lab.approve(run)
        await lab.pass_time(30)

    async def check(lab: Lab) -> None:
        told = [(crash.place, crash.point) async for crash in lab.every_crash(asks, "Ok?", drive=drive)]
        assert told[0] == (Place.UNDISTURBED, 0)
        assert len(set(told)) == len(told)
        by_place = {place: [point for where, point in told if where is place] for place in Place}
        assert by_place[Place.BEFORE] == list(range(1, 9))
        assert by_place[Place.AFTER] == list(range(1, 12))
        assert by_place[Place.ACTED] == [1]
        assert lab.deaths == len(told) - 1

    within(check)


def test_a_store_needs_its_clock(store: Store, moment: Moment) -> None:
    """With both a lab runs on any store, and leaves it open."""
    with pytest.raises(UsageError, match="clock"):
        Lab(app, store=store)

    async def check(lab: Lab) -> None:
        run = await lab.start(asks, "Ok?")
        await lab.settle()
        await lab.deny()
        assert await lab.result(run) is False

    within(check, store=store, clock=moment)
    assert store.transact_now(lambda tx: len(tx.programs())) == 3


def test_what_a_lab_refuses() -> None:
    """A flow of another app, a store before it is open."""

    async def stranger(ctx: Context) -> None:
        """Belong to nobody."""

    async def check(lab: Lab) -> None:
        with pytest.raises(UsageError, match="'stranger' is not a flow of this app"):
            await lab.start(stranger)
        with pytest.raises(NotFound):
            await lab.state(Run(999, "x-ZZZZ"))

    within(check)
    with pytest.raises(UsageError, match="not open"):
        _ = Lab(app).store


def test_schedules_in_a_lab() -> None:
    """Asked for, they start runs as time passes: the slots of the clock that the test moves, over a spring night too."""
    scheduled, seen = App(), list[str]()

    @scheduled.schedule("30 2 * * *", zone="Europe/Berlin")
    @scheduled.flow
    async def nightly(ctx: Context) -> None:
        seen.append(f"{ctx.now():%d %H:%M}")

    async def main() -> None:
        async with Lab(scheduled, schedules=True, clock=Clock(datetime(2027, 3, 27, 12, tzinfo=UTC))) as lab:
            await lab.pass_time(days(2))
        async with Lab(scheduled, clock=Clock(datetime(2027, 3, 27, 12, tzinfo=UTC))) as lab:
            await lab.pass_time(days(2))

    asyncio.run(main())
    assert seen == ["28 01:00", "29 00:30"]
