"""Loop time, durable timers, timeouts, and futures that do not give way."""

from __future__ import annotations

import asyncio

import pytest

from torpor.errors import UsageError
from torpor.sdk.loop import FlowLoop, Timer

START = 1_700_000_000_000_000
SECOND = 1_000_000


def fire(loop: FlowLoop, timer: Timer) -> None:
    """Do what the executor does when a timer won."""
    loop.advance(timer.due_at)
    loop.fire(timer)
    loop.pump()


def test_loop_time_moves_by_advance_only_and_never_back() -> None:
    """Loop time is the checkpoint's time in seconds."""
    loop = FlowLoop(now=START)
    assert loop.time() == START / SECOND
    loop.advance(START + 5 * SECOND)
    loop.advance(START)
    assert loop.now == START + 5 * SECOND


def test_sleeps_open_numbered_timers_in_order_of_creation() -> None:
    """Numbers count per turn, due times are exact microseconds."""
    loop = FlowLoop(now=START)
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    async def body() -> None:
        await asyncio.gather(sleep(3), sleep(0.1), sleep(0))

    task = loop.start(body())
    loop.pump()
    assert woken == [0]
    assert [(timer.number, timer.due_at) for timer in loop.timers] == [(1, START + 3 * SECOND), (2, START + 100_000)]
    second = loop.timers[1]
    fire(loop, second)
    assert second.fired
    assert not second.cancelled
    assert [timer.number for timer in loop.timers] == [1]
    fire(loop, loop.timers[0])
    assert task.done()
    assert woken == [0, 0.1, 3]
    with pytest.raises(UsageError, match=r"Timer 2 .* fired> is not open"):
        loop.fire(second)


def test_a_timeout_that_is_left_withdraws_its_timer() -> None:
    """The timer tells that it was cancelled, not fired."""
    loop = FlowLoop(now=START)
    future = loop.future()

    async def body() -> object:
        async with asyncio.timeout(60):
            return await future

    task = loop.start(body())
    loop.pump()
    (timer,) = loop.timers
    assert timer.due_at == START + 60 * SECOND
    future.set_result("in time")
    loop.pump()
    assert task.result() == "in time"
    assert timer.cancelled
    assert not timer.fired
    assert loop.timers == ()


def test_a_timeout_that_fires_cancels_the_future() -> None:
    """As in asyncio, a `TimeoutError` comes out of the block."""
    loop = FlowLoop(now=START)
    future = loop.future()

    async def body() -> str:
        try:
            async with asyncio.timeout(60):
                await future
        except TimeoutError:
            return "too late"
        return "in time"

    task = loop.start(body())
    loop.pump()
    fire(loop, loop.timers[0])
    assert task.result() == "too late"
    assert future.cancelled()


def test_a_stubborn_future_is_waited_for() -> None:
    """An effect past its gate is not settled by a timeout; the timeout strikes when its outcome is there."""
    loop = FlowLoop(now=START)
    future = loop.future()
    future.stubborn = True

    async def body() -> str:
        try:
            async with asyncio.timeout(60):
                await future
        except TimeoutError:
            return f"too late, {future.result()}"
        return "in time"

    task = loop.start(body())
    loop.pump()
    fire(loop, loop.timers[0])
    assert not task.done()
    assert not future.done()
    future.set_result("but it happened")
    loop.pump()
    assert task.result() == "too late, but it happened"


def test_wait_for_and_call_at_and_what_is_due_already() -> None:
    """`call_at` takes loop time; a moment that has come is a turn of the queue, not a wait."""
    loop = FlowLoop(now=START)
    seen: list[str] = []

    async def body() -> str:
        later = loop.call_at(loop.time() + 2, seen.append, "later")
        assert later.when() == loop.time() + 2
        gone = loop.call_later(9, seen.append, "never")
        gone.cancel()
        assert gone.cancelled()
        loop.call_at(loop.time() - 1, seen.append, "due")
        loop.call_soon(seen.append, "never").cancel()
        try:
            await asyncio.wait_for(loop.future(), 1)
        except TimeoutError:
            return "timed out"
        return "?"

    task = loop.start(body())
    loop.pump()
    assert seen == ["due"]
    assert [timer.due_at - START for timer in loop.timers] == [2 * SECOND, SECOND]
    fire(loop, loop.timers[1])
    fire(loop, loop.timers[0])
    assert task.result() == "timed out"
    assert seen == ["due", "later"]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e15])
def test_a_timer_that_is_never_due_is_refused(seconds: float) -> None:
    """No store could hold it."""
    loop = FlowLoop(now=START)
    with pytest.raises(UsageError, match="never due"):
        loop.call_later(seconds, print)
