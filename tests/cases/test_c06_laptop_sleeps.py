"""C06: the laptop sleeps through timers, leases and schedules.

A 10-minute timer, an hourly schedule, and a tool inside a network call. After a minute everything is frozen, the wall clock
goes on by two hours while the monotonic clock stands still, and everything is thawed. Right: the timer fires once, within
one poll of waking; the worker sees the gap and checks its lease again before it writes; the dead call ends with an error in
bounded time; the schedule follows its policy for missed slots, by default one run for all, and each slot is on record.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from tests.cases.apps.asking import PEER
from tests.cases.laptop import Laptop
from tests.cases.peer import Peer, answer
from tests.worker.counter import COUNTER
from torpor import App, Context, StepFailed, clock, minutes, rouse
from torpor.core.run import State

if TYPE_CHECKING:
    from tests.cases.world import World
    from tests.stores import Place

HOURS = 3600.0
POLL_SECONDS = 1.0
LIMITS = rouse.Limits()
app = App()
_events: dict[str, asyncio.Event] = {}
_over = threading.Event()


@app.effect
async def ring() -> None:
    """Act when the time has come."""
    COUNTER.act()


@app.step
async def waits() -> str:
    """Run until the test says so."""
    _events["entered"].set()
    await _events["leave"].wait()
    return "done"


@app.step(timeout=0.1)
def reads_from_the_dead() -> None:
    """Block a thread until the test is over."""
    _over.wait()


@app.step
def reads() -> str:
    """Need a thread."""
    return "read"


@app.flow
async def naps(ctx: Context) -> None:
    """Sleep ten minutes, then act."""
    await ctx.sleep(minutes(10))
    await ctx.effect(ring)


@app.flow
async def works(ctx: Context) -> str:
    """Be in the middle of a step."""
    return await ctx.step(waits)


@app.flow
async def reads_on(ctx: Context) -> list[str]:
    """Read from somebody dead, then from somebody else."""
    try:
        await ctx.step(reads_from_the_dead)
    except StepFailed as failed:
        return [failed.kind, await ctx.step(reads)]
    return []


@pytest.mark.slow
def test_a_timer_fires_once_after_waking(place: Place) -> None:
    """The first look after the lid was opened finds it due; it acts once (G8)."""
    COUNTER.clear()

    async def main() -> None:
        laptop = Laptop(place, app)
        async with laptop.on():
            run = (await laptop.client.start("naps")).run_id
            await laptop.left.wait()
            laptop.pass_time(60)
            laptop.store.forget()
            laptop.close_lid(2 * HOURS)
            await laptop.client.result(run)
            assert next(n for n in laptop.store.fired if n) == laptop.store.fired[0] == 1
            assert COUNTER.count == 1

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize(("missed", "strip"), [("latest", "+++#"), ("skip", "----"), ("all", "####")])
def test_a_schedule_follows_its_policy_after_waking(place: Place, missed: str, strip: str) -> None:
    """The lid is closed over four slots: within one poll the policy decided, and every slot has its fate and reason."""
    scheduled = App()
    ran = 0

    @scheduled.schedule("0 * * * *", missed=missed)
    @scheduled.flow
    async def hourly(ctx: Context) -> None:
        nonlocal ran
        del ctx
        ran += 1

    async def main() -> None:
        laptop = Laptop(place, scheduled)
        async with laptop.on():
            laptop.pass_time(60)
            laptop.close_lid(4 * HOURS + 600)
            while len((line := await laptop.client.schedule("hourly")).slots) < 4:
                await laptop.looked()
            assert line.strip == strip
            assert all(slot.reason for slot in line.slots)
            while ran < strip.count("#"):
                await laptop.left.wait()
                laptop.left.clear()
            assert ran == strip.count("#")

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("away", ["asleep", "frozen"])
def test_a_lease_is_checked_again_before_a_commit(place: Place, away: str) -> None:
    """A commit that is ready at the moment of waking, before any tick, waits until every lease was renewed (G2)."""

    async def main() -> None:
        _events.update(entered=asyncio.Event(), leave=asyncio.Event())
        laptop = Laptop(place, app)
        async with laptop.on():
            run = (await laptop.client.start("works")).run_id
            await _events["entered"].wait()
            laptop.store.forget()
            if away == "asleep":
                laptop.close_lid(2 * HOURS)
            else:
                laptop.pass_time(2 * HOURS)
            _events["leave"].set()
            assert await laptop.client.result(run) == "done"
            asked = laptop.store.asked
            assert "renew" in asked[: asked.index("commit")]

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.alone
def test_a_timer_of_a_frozen_process_fires_once(world: World) -> None:
    """A real process, stopped over the time it sleeps for: once, not early, within one poll of going on (G8)."""
    worker = world.worker("acting")
    run = world.start("naps", HOURS)
    world.until(lambda: world.run(run).state is State.WAITING, "it sleeps")
    due_at = world.run(run).due_at or 0
    worker.freeze()
    world.pass_time(2 * HOURS)
    thawed_at = world.now()
    worker.thaw()
    world.result(run)
    [fired] = world.entries(run, "consumed")
    assert due_at <= fired.at
    assert thawed_at <= fired.at <= thawed_at + 3 * POLL_SECONDS * 1e6, "one poll, on a busy machine"
    assert len(world.outside.all("act")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", ["reads_blocking", "reads"])
def test_a_dead_read_ends_by_its_timeout(world: World, step: str) -> None:
    """Frozen inside it, and nobody will ever answer: it ends, is tried again or fails as declared, and the worker can end."""
    world.outside.hold("read")
    worker = world.worker("acting")
    run = world.start("reads_on", step)
    dead = world.outside.next("read")
    worker.freeze()
    worker.thaw()
    if step == "reads_blocking":
        world.outside.next("read", 2)
        world.outside.free("read", value="alive")  # from now on an attempt is answered at once, and may still be late
    assert world.result(run) == ("alive" if step == "reads_blocking" else "TimeoutError")
    reads = world.outside.all("read")
    assert len(reads) > 1 if step == "reads_blocking" else reads == [dead]
    assert world.run(run).takeovers == 0
    assert worker.stop() == 0


@pytest.mark.slow
def test_a_call_in_flight_is_made_again_after_a_freeze(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process stops inside a request. Its connection is of another life and is let go: asked again, nothing failed."""
    with Peer() as peer:
        monkeypatch.setenv(PEER, peer.url)
        worker = world.worker("asking")
        run = world.start("asking")
        first = peer.next()
        worker.freeze()
        over_at = clock.monotonic() + LIMITS.tick_seconds + LIMITS.freeze_seconds + 0.5
        world.until(lambda: clock.monotonic() > over_at, "it is frozen for longer than a pause of the machine may be")
        worker.thaw()
        second = peer.next()
        assert first.recv(1) == b"", "the first was let go before the second came"
        answer(second, "alive")
        assert world.result(run) == "alive"
        assert peer.quiet
        assert "again after a rousal" in worker.log
        assert [line.kind for line in world.journal(run) if line.kind in {"note", "failure"}] == []
        assert worker.stop() == 0


@pytest.mark.slow
def test_a_dead_read_does_not_keep_its_thread(place: Place) -> None:
    """The only thread is blocked for good, its step has timed out: the next step gets another one."""
    _over.clear()

    async def main() -> None:
        laptop = Laptop(place, app, threads=1)
        async with laptop.on():
            run = (await laptop.client.start("reads_on")).run_id
            assert await laptop.client.result(run) == ["TimeoutError", "read"]

    try:
        asyncio.run(main())
    finally:
        _over.set()
