"""Waits: time, messages, what is sent, and what races with what (G7, G8)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import FaultyStore, no_fault, on
from torpor import App, Context, NeedsPerson, UsageError
from torpor.core.run import State
from torpor.engine import waits
from torpor.testing import Place
from torpor.testing.sweeping import sweep

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()


@app.step
async def note(what: str) -> str:
    """Note that something happened."""
    COUNTER.act(what)
    return what


@app.flow
async def sleeper(ctx: Context) -> Any:
    """Sleep in all ways there are."""
    begin = ctx.now()
    await ctx.sleep(10)
    await ctx.sleep(timedelta(minutes=1))
    await asyncio.sleep(5)
    await ctx.until(begin + timedelta(hours=1))
    await ctx.until(begin)
    return (ctx.now() - begin).total_seconds()


@pytest.mark.slow
def test_timers_are_durable_and_never_early(store: Store, moment: Moment) -> None:
    """Killed anywhere a run sleeps exactly as long, by the database's clock."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(sleeper):
            assert await crash.result() == 3600.0, crash

    on(store, moment, app, check)


def test_a_timer_is_not_early_by_a_microsecond(store: Store, moment: Moment) -> None:
    """One microsecond before its time nothing happens, at its time it does (G8)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(sleeper)
        await lab.settle()
        lab.advance(9.999999)
        await lab.settle()
        assert len(await lab.journal(run)) == 2
        lab.advance(0.000001)
        await lab.settle()
        assert [line.kind for line in await lab.journal(run)][2:] == ["consumed", "wait"]

    on(store, moment, app, check)


@app.flow
async def race(ctx: Context) -> Any:
    """Wait for a signal with a timeout, tell who won, then wait for what is left."""
    try:
        async with asyncio.timeout(60):
            first = await ctx.receive("go")
    except TimeoutError:
        first = "timeout"
    await ctx.step(note, f"first {first}")
    second = await ctx.receive("go")
    return first, second


@pytest.mark.slow
@pytest.mark.parametrize("winner", ["signal", "timer", "together"])
def test_a_race_of_timer_and_signal_replays_the_same_way(store: Store, moment: Moment, winner: str) -> None:
    """Whoever was first stays first, wherever the worker is killed; at the same moment the signal wins."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        if winner == "signal":
            await lab.signal(run, "go", "a")
        lab.advance(60)
        if winner == "together":
            await lab.signal(run, "go", "a")
        if winner == "timer":
            lab.advance(0.000001)
            await lab.signal(run, "go", "a")
        await lab.settle()
        lab.advance(1)
        await lab.signal(run, "go", "b")
        await lab.settle()

    async def check(lab: Lab) -> None:
        expected = ("timeout", "a") if winner == "timer" else ("a", "b")
        async for crash in lab.every_crash(race, drive=drive, before=COUNTER.clear):
            assert await crash.result() == expected, crash
            assert set(COUNTER.calls) == {f"first {expected[0]}"}, crash

    on(store, moment, app, check)


@app.flow
async def gatherer(ctx: Context) -> Any:
    """Wait for two of one name and one of another, at once."""
    return await asyncio.gather(ctx.receive("a"), ctx.receive("a"), ctx.receive("b"))


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_no_signal_is_lost_or_doubled(store: Store, moment: Moment, when: str) -> None:
    """Sent before, between or after the waits are registered: each wait gets one, in order (G7)."""

    async def drive(lab: Lab, run: Run) -> None:
        if when != "before":
            await lab.settle()
        await lab.signal(run, "b", 3)
        await lab.signal(run, "a", 1, key="k")
        assert not await lab.signal(run, "a", 9, key="k")
        if when == "during":
            await lab.settle()
        await lab.signal(run, "a", 2)
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(gatherer, drive=drive):
            assert await crash.result() == [1, 2, 3], crash

    on(store, moment, app, check)


def test_a_repeated_key_is_known_after_it_was_consumed(store: Store, moment: Moment) -> None:
    """A signal that comes again after the run went on changes nothing."""

    async def check(lab: Lab) -> None:
        run = await lab.start(race)
        assert await lab.signal(run, "go", "a", key="one")
        await lab.settle()
        assert not await lab.signal(run, "go", "again", key="one")
        await lab.settle()
        with pytest.raises(NeedsPerson, match="message go"):
            await lab.result(run)

    on(store, moment, app, check)


@app.flow
async def sender(ctx: Context, to: str) -> str:
    """Send three messages in order, the last with a large value."""
    await ctx.send(to, "news", 1)
    await ctx.send(to, "news", "two")
    await ctx.step(note, "sent two")
    await ctx.send(to, "news", "x" * 100_000)
    return "sent"


@app.flow
async def receiver(ctx: Context) -> Any:
    """Receive three messages."""
    got = [await ctx.receive("news") for _ in range(3)]
    return got[0], got[1], len(got[2])


@pytest.mark.slow
def test_messages_between_runs_arrive_once_and_in_order(store: Store, moment: Moment) -> None:
    """Through the outbox, whatever happens to the sender; then whatever happens to the receiver (G7)."""

    async def check(lab: Lab) -> None:
        for place in (Place.BEFORE, Place.AFTER):
            for point in range(1, 14):
                target = await lab.start(receiver)
                if point % 2:
                    await lab.settle()
                lab.crash(place, point)
                run = await lab.start(sender, target.name)
                await lab.settle()
                assert await lab.result(run) == "sent", (place, point)
                assert await lab.result(target) == (1, "two", 100_000), (place, point)

    on(store, moment, app, check)


def test_a_waker_that_dies_in_the_middle_delivers_once(
    store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction is whole or was never: the messages go out later, none twice."""
    faulty = FaultyStore(store)
    deaths = [InterruptedError()]

    def dies_with_a_message(tx: Any, dead: Any) -> None:
        """Asked inside the sweep's own transaction: what is sent a moment later is another sweep's."""
        had = bool(tx.outbox(limit=1))
        sweep(tx, dead)
        if had and deaths:
            raise deaths.pop()

    monkeypatch.setattr("torpor.testing.lab.sweep", dies_with_a_message)

    async def check(lab: Lab) -> None:
        target = await lab.start(receiver)
        run = await lab.start(sender, target.name)
        faulty.fault = lambda op, _args: "away" if op is waits.deliver else None  # not by the worker itself
        with pytest.raises(InterruptedError):
            await lab.settle()
        assert await lab.store.transact(lambda tx: tx.outbox(limit=9)) != []
        assert await lab.result(target) == (1, "two", 100_000)
        assert await lab.state(run) == "completed"
        faulty.fault = no_fault
        assert (await lab.store.transact(waits.deliver)).done == 0

    on(faulty, moment, app, check)


def test_a_message_to_nobody_is_dropped(store: Store, moment: Moment) -> None:
    """The sender goes on; the outbox is empty afterwards."""

    async def check(lab: Lab) -> None:
        run = await lab.start(sender, "receiver-ZZZZ")
        assert await lab.result(run) == "sent"
        assert await lab.store.transact(lambda tx: tx.outbox(limit=9)) == []

    on(store, moment, app, check)


@app.flow
async def naive(ctx: Context) -> Any:
    """Sleep until a moment without a zone, and for nothing."""
    try:
        await ctx.until(datetime(2030, 1, 1))  # noqa: DTZ001 - the mistake itself
    except UsageError as error:
        return str(error)


def test_a_moment_needs_a_zone(store: Store, moment: Moment) -> None:
    """Nobody can know which moment a naive datetime means."""

    async def check(lab: Lab) -> None:
        assert "time zone" in await lab.result(await lab.start(naive))
        assert lab.now == datetime(2030, 1, 1, tzinfo=UTC)

    on(store, moment, app, check)


@app.flow
async def withdrawing(ctx: Context) -> Any:
    """Stop waiting for a message, then wait for it again."""
    waiting = asyncio.create_task(ctx.receive("late"))
    await ctx.sleep(10)
    waiting.cancel()
    await asyncio.wait([waiting])
    await ctx.step(note, "withdrawn")
    return await ctx.receive("late")


@pytest.mark.slow
def test_the_loser_of_a_race_has_taken_nothing(store: Store, moment: Moment) -> None:
    """A signal that came while its wait was withdrawn is there for the next wait (protocol, Suspend)."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        lab.advance(10)
        await lab.settle()
        await lab.signal(run, "late", 5)
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(withdrawing, drive=drive):
            assert await crash.result() == 5, crash
        run = await lab.start(withdrawing)
        await lab.settle()
        lab.advance(10)
        await lab.signal(run, "late", 6)  # at the very moment the timer falls due: the signal wins, the code drops it
        await lab.settle()
        row = (await lab.store.transact(lambda tx: tx.get_runs([run.number])))[run.number]
        assert row.state is State.WAITING

    on(store, moment, app, check)
