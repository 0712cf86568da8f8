"""What is left when a turn ends or a body is put away: async generators, tasks, memory."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from torpor.sdk.loop import FlowLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

START = 1_700_000_000_000_000


@pytest.fixture(autouse=True)
def quiet_collector() -> Iterator[None]:
    """What a test leaves behind is collected in that test, where a warning is its own."""
    yield
    gc.collect()


def suspended(body: Callable[[FlowLoop], Coroutine[Any, Any, Any]]) -> FlowLoop:
    """Run a body to its first wait."""
    loop = FlowLoop(now=START)
    main = loop.start(body(loop))
    loop.pump()
    assert not main.done()
    return loop


async def numbers(seen: list[str]) -> AsyncIterator[int]:
    """Count, and say when closed."""
    try:
        yield 1
        yield 2
    finally:
        seen.append("closed")


def test_a_half_read_generator_is_closed_and_told_at_the_end_of_the_turn() -> None:
    """Not earlier, when the collector would find it; with `break` its `finally` waits for the end."""
    seen: list[str] = []
    loop = FlowLoop(now=START)

    async def body() -> None:
        async for _ in numbers(seen):
            break
        seen.append("after")

    loop.start(body())
    loop.pump()
    assert seen == ["after"]
    (complaint,) = loop.cancel_leftovers()
    assert seen == ["after", "closed"]
    assert "numbers was left half-read" in complaint


def test_a_generator_that_is_being_read_is_closed_with_its_body() -> None:
    """A run that suspends inside `async for` did nothing wrong."""
    seen: list[str] = []

    async def body(loop: FlowLoop) -> None:
        async for _ in numbers(seen):
            await loop.future()

    assert suspended(body).close_body() == []
    assert seen == ["closed"]


def test_a_generator_that_awaits_while_it_is_closed_is_told() -> None:
    """Nothing can be awaited any more."""

    async def waiting(loop: FlowLoop) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await loop.future()

    async def body(loop: FlowLoop) -> None:
        async for _ in waiting(loop):
            await loop.future()

    (complaint,) = suspended(body).close_body()
    assert "awaited while it was closed" in complaint


def test_leftovers_are_cancelled_in_order_of_creation() -> None:
    """The turn is over; what still runs gets `CancelledError`, and can clean up with asyncio's own means."""
    loop = FlowLoop(now=START)
    cancelled: list[int] = []
    lock = asyncio.Lock()

    async def leftover(number: int) -> None:
        try:
            await loop.future()
        finally:
            async with lock:
                await asyncio.sleep(0)
                cancelled.append(number)

    tasks: list[asyncio.Task[None]] = []

    async def body() -> None:
        tasks.extend(asyncio.create_task(leftover(number)) for number in range(9))
        await asyncio.sleep(0)

    main = loop.start(body())
    loop.pump()
    assert main.done()
    assert loop.cancel_leftovers() == []
    assert cancelled == list(range(9))
    assert all(task.cancelled() for task in tasks)


def test_a_leftover_that_does_not_end_is_closed() -> None:
    """Asked three times, then closed; its forgotten error is told."""
    loop = FlowLoop(now=START)
    asked: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    async def leftover() -> None:
        while True:
            try:
                await loop.future()
            except asyncio.CancelledError:
                asked.append(1)

    async def body() -> None:
        tasks.append(asyncio.create_task(leftover()))
        await asyncio.sleep(0)

    loop.start(body())
    loop.pump()
    assert loop.cancel_leftovers() == []
    assert len(asked) == 3
    assert tasks[0].cancelled()


class Witness:
    """Something that a body holds."""


@pytest.mark.parametrize("waits", ["for a future", "for a task"])
@pytest.mark.parametrize("end", ["close_body", "cancel_leftovers"])
def test_nothing_of_the_body_stays_alive(end: str, waits: str) -> None:
    """Not even a cycle for the collector: what the body held is gone when the caller lets go of loop and task."""
    witness = Witness()
    gone = weakref.ref(witness)

    async def child(loop: FlowLoop, held: Witness) -> None:
        await loop.future()
        del held

    async def body(loop: FlowLoop, held: Witness) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child(loop, held))
            beside = asyncio.create_task(child(loop, held))
            await asyncio.wait_for(loop.future(), 5) if waits == "for a future" else await beside

    loop = FlowLoop(now=START)
    main = loop.start(body(loop, witness))
    loop.pump()
    gc.collect()
    gc.disable()
    try:
        getattr(loop, end)()
        loop_gone, main_gone = weakref.ref(loop), weakref.ref(main)
        del witness
        assert gone() is None
        del loop, main
        assert (loop_gone(), main_gone()) == (None, None)
    finally:
        gc.enable()


def test_a_turn_that_ends_leaves_no_cycle() -> None:
    """The common case is freed at once, without the collector."""
    loop = FlowLoop(now=START)
    futures = [loop.future()]

    async def body() -> object:
        return await futures[0]

    main = loop.start(body())
    loop.pump()
    futures[0].set_result(1)
    loop.pump()
    gc.collect()
    gc.disable()
    try:
        assert loop.cancel_leftovers() == []
        loop_gone, main_gone, future_gone = weakref.ref(loop), weakref.ref(main), weakref.ref(futures.pop())
        del loop, main
        assert (loop_gone(), main_gone(), future_gone()) == (None, None, None)
    finally:
        gc.enable()
