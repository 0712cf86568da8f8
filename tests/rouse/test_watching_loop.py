"""Somebody ticks for an event loop: a thread looks, the loop tells."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from torpor import rouse
from torpor.rouse import ticks

QUICK = rouse.Limits(tick_seconds=0.01)


def test_a_block_in_an_event_loop_was_interrupted() -> None:
    """The block looks before the loop does; the callbacks run in the loop's own look."""
    clocks, registry, told = ClocksByHand(), rouse.Registry(), list[rouse.Rousal]()
    registry.on_rousal(told.append)

    async def in_a_loop() -> None:
        async with rouse.watching(
            rouse.Limits(tick_seconds=3600.0), clocks=clocks.clocks, registry=registry
        ) as watcher:
            with pytest.raises(rouse.Interrupted, match="slept"), rouse.uninterrupted():
                clocks.suspend(3600.0)
            assert told == []
            watcher.check()
            assert [rousal.kind for rousal in told] == ["slept"]

    asyncio.run(in_a_loop())
    with rouse.uninterrupted():  # nobody ticks any more
        clocks.suspend(3600.0)


def test_what_is_found_while_the_loop_is_blocked_closes_the_gate_and_is_told_by_the_loop() -> None:
    """The thread looks, the loop tells."""
    clocks, registry, told = ClocksByHand(), rouse.Registry(), asyncio.Event()
    tellers = list[int]()

    @registry.on_rousal
    def tell(_rousal: rouse.Rousal) -> None:
        tellers.append(threading.get_ident())
        told.set()

    async def in_a_loop() -> None:
        async with rouse.watching(QUICK, clocks=clocks.clocks, registry=registry):
            clocks.suspend(3600.0)
            ends_at = time.monotonic() + PATIENCE_SECONDS
            while registry.is_open and time.monotonic() < ends_at:
                pass
            assert not registry.is_open
            assert tellers == []
            await asyncio.wait_for(told.wait(), PATIENCE_SECONDS)
            assert registry.is_open

    asyncio.run(in_a_loop())
    assert tellers == [threading.get_ident()]


def test_what_a_block_noticed_is_told_by_the_loop() -> None:
    """The thread finds nothing new then, and that something is left to be told."""
    clocks, registry, told = ClocksByHand(), rouse.Registry(), asyncio.Event()
    registry.on_rousal(lambda _: told.set())

    async def in_a_loop() -> None:
        async with rouse.watching(QUICK, clocks=clocks.clocks, registry=registry):
            with registry.lock:  # so that the thread comes second
                with pytest.raises(rouse.Interrupted, match="slept"), rouse.uninterrupted():
                    clocks.suspend(3600.0)
                assert not told.is_set()
            await asyncio.wait_for(told.wait(), PATIENCE_SECONDS)

    asyncio.run(in_a_loop())


def end_in_a_copy() -> int:
    """End the watch of the loop in a copy of this process, as the end of the block does; the copy's exit code."""
    [running] = ticks._of_loops  # noqa: SLF001 - nobody else may end it
    if (pid := os.fork()) == 0:
        code = 1
        try:
            running.stop()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_copy_that_ends_the_watch_of_its_loop_leaves_the_original_alone() -> None:
    """There is no thread in the copy, and the pipe by which one is ended is the original's."""
    clocks, registry, told = ClocksByHand(), rouse.Registry(), asyncio.Event()
    registry.on_rousal(lambda _: told.set())

    async def in_a_loop() -> None:
        async with rouse.watching(QUICK, clocks=clocks.clocks, registry=registry):
            assert end_in_a_copy() == 0
            clocks.suspend(3600.0)
            await asyncio.wait_for(told.wait(), PATIENCE_SECONDS)

    asyncio.run(in_a_loop())


def test_what_is_found_at_the_end_of_a_watch_is_told() -> None:
    """There is no later tick."""
    clocks, registry, told = ClocksByHand(), rouse.Registry(), list[rouse.Kind]()
    registry.on_rousal(lambda rousal: told.append(rousal.kind))

    async def in_a_loop() -> None:
        async with rouse.watching(rouse.Limits(tick_seconds=3600.0), clocks=clocks.clocks, registry=registry):
            clocks.suspend(3600.0)

    asyncio.run(in_a_loop())
    assert told == [rouse.Kind.SLEPT]
