"""Lanes: calls leave the loop, come back in order, and survive what happens to whoever waits."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.store.lanes import Thread


def test_calls_run_in_order_in_one_thread() -> None:
    """A lane of one thread is a queue."""
    lane, seen = Thread("lane"), list[int]()
    for n in range(50):
        lane.put(lambda n=n: seen.append(n))  # type: ignore[misc]
    names = {lane.run_now(lambda: threading.current_thread().name) for _ in range(3)}
    assert seen == list(range(50))
    assert names == {"lane"}
    lane.stop()


def test_two_threads_run_two_calls_at_once() -> None:
    """Neither can return before the other is there."""
    lane, both, order = Thread("lane", count=2), threading.Barrier(2, timeout=PATIENCE_SECONDS), list[int]()
    lane.put(lambda: order.append(both.wait()))
    mine = lane.run_now(both.wait)
    lane.stop()
    assert sorted([mine, *order]) == [0, 1]


def test_what_a_call_raises_comes_back() -> None:
    """To a loop and to a plain caller."""
    lane = Thread("lane")

    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        lane.run_now(fails)
    with pytest.raises(KeyError):
        asyncio.run(lane.run(fails))
    assert asyncio.run(lane.run(lambda: 5)) == 5
    lane.stop()


def test_a_caller_that_went_away_disturbs_nobody() -> None:
    """A cancelled wait leaves its call running; a closed loop is not called back."""
    lane, go, done = Thread("lane"), threading.Event(), threading.Event()

    async def gives_up() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def slow() -> None:
            loop.call_soon_threadsafe(begun.set)
            go.wait(PATIENCE_SECONDS)
            done.set()

        waiting = asyncio.ensure_future(lane.run(slow))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(gives_up())
    go.set()
    assert done.wait(PATIENCE_SECONDS)
    assert lane.run_now(lambda: 1) == 1
    lane.stop()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_its_own_threads() -> None:
    """The parent's threads are not in the child, and the parent's waiting calls are not the child's."""
    lane = Thread("lane")
    assert lane.run_now(lambda: 1) == 1
    child = os.fork()
    if child == 0:
        os._exit(7 if lane.run_now(lambda: 2) == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert lane.run_now(lambda: 3) == 3
    lane.stop()


def test_a_stopped_lane_has_done_everything() -> None:
    """Stopping waits for what was asked before; it may be said twice."""
    lane, seen = Thread("lane"), list[int]()
    for n in range(5):
        lane.put(lambda n=n: seen.append(n))  # type: ignore[misc]
    lane.stop()
    assert seen == [0, 1, 2, 3, 4]
    lane.stop()
