"""A body that is put away: its `finally` runs, nothing is resumed, nothing stays behind, nothing hangs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import pytest

from torpor.sdk.loop import FlowLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

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


def test_finally_runs_while_closing_and_the_loop_is_deaf_afterwards() -> None:
    """The order is: `closing` is True, `finally` runs, futures no longer wake anybody."""
    seen: list[object] = []
    futures: list[asyncio.Future[Any]] = []

    async def body(loop: FlowLoop) -> None:
        futures.append(loop.future())
        futures.append(loop.future())
        try:
            await asyncio.gather(*futures)
        except Exception:  # noqa: BLE001 - what an author writes; a close must pass it
            seen.append("caught")
        finally:
            seen.append((loop.closing, asyncio.current_task() is loop.main, asyncio.get_running_loop() is loop))

    loop = suspended(body)
    assert loop.close_body() == []
    assert seen == [(True, True, True)]
    assert loop.close_body() == []
    if not futures[1].done():
        futures[1].set_result("late")
    loop.pump()
    assert loop.steps == 1
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


def test_task_groups_close_without_a_complaint() -> None:
    """Children go first and their group is told, so no parent has to await again. Nested, inside and at the end of it."""
    closed: list[str] = []

    async def child(loop: FlowLoop, name: str) -> None:
        try:
            await loop.future()
        finally:
            closed.append(name)

    async def nested(loop: FlowLoop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child(loop, "third"))
            group.create_task(child(loop, "fourth"))
            await loop.future()

    async def body(loop: FlowLoop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child(loop, "first"))
            group.create_task(nested(loop))
            group.create_task(child(loop, "second"))

    loop = suspended(body)
    assert loop.close_body() == []
    assert closed == ["fourth", "third", "second", "first"]


@pytest.mark.parametrize(
    "kind", ["queue", "lock", "semaphore", "condition", "event", "wait", "wait_for", "shield", "timeout"]
)
def test_every_primitive_closes_quietly(kind: str) -> None:
    """The own clean-up of asyncio must not need to await while a body is closed."""

    async def body(loop: FlowLoop) -> None:
        lock, condition, semaphore = asyncio.Lock(), asyncio.Condition(), asyncio.Semaphore(0)
        await lock.acquire()
        waits: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "queue": asyncio.Queue[int]().get,
            "lock": lock.acquire,
            "semaphore": semaphore.acquire,
            "event": asyncio.Event().wait,
            "wait": lambda: asyncio.wait([loop.future(), loop.future()], timeout=5),
            "wait_for": lambda: asyncio.wait_for(loop.future(), 5),
        }
        if kind == "condition":
            async with condition:
                await condition.wait()
        elif kind == "shield":
            await asyncio.shield(loop.future())
        elif kind == "timeout":
            async with asyncio.timeout(5):
                await loop.future()
        else:
            await waits[kind]()

    assert suspended(body).close_body() == []


def test_closing_withdraws_no_timer() -> None:
    """The run sleeps on: leaving `timeout` because of the close is not the author's withdrawal."""

    async def body(loop: FlowLoop) -> None:
        async with asyncio.timeout(60):
            await loop.future()

    loop = suspended(body)
    (timer,) = loop.timers
    assert loop.close_body() == []
    assert not timer.cancelled
    assert not timer.fired


def test_a_call_that_is_refused_in_finally_is_no_complaint() -> None:
    """`finally: await ctx.step(cleanup)` is good code; while the body is put away the call is refused, and that is all."""

    async def body(loop: FlowLoop) -> None:
        try:
            await loop.future()
        finally:
            if loop.closing:
                raise loop.refuse("ctx.step while the body is being closed", hint="")

    assert suspended(body).close_body() == []


def test_a_refused_call_after_the_close_was_swallowed_is_told() -> None:
    """Then the body was going on, and the refusal only stopped it."""

    async def body(loop: FlowLoop) -> None:
        with contextlib.suppress(BaseException):  # the fault under test
            await loop.future()
        raise loop.refuse("ctx.step while the body is being closed", hint="")

    (complaint,) = suspended(body).close_body()
    assert "swallowed its close and went on" in complaint


def test_a_body_that_swallows_the_close_is_told() -> None:
    """With the place where it stood."""

    async def body(loop: FlowLoop) -> str:
        with contextlib.suppress(BaseException):  # the fault under test
            await loop.future()
        return "as if nothing had happened"

    (complaint,) = suspended(body).close_body()
    assert "swallowed its close" in complaint
    assert "test_loop_closing.py:" in complaint


def test_a_body_that_awaits_again_is_told_and_closed() -> None:
    """A `finally` that waits gets the close again."""
    seen: list[str] = []

    async def body(loop: FlowLoop) -> None:
        try:
            await loop.future()
        finally:
            try:
                await loop.future()
            finally:
                seen.append("out")

    (complaint,) = suspended(body).close_body()
    assert "awaited again while it was closed" in complaint
    assert seen == ["out"]


def test_a_body_that_never_lets_go_is_dropped() -> None:
    """Bounded attempts; the count of passes shows that the close did not hang."""
    passes: list[int] = []

    async def body(loop: FlowLoop) -> None:
        while len(passes) < 40:
            try:
                await loop.future()
            except BaseException:  # noqa: BLE001 - the fault under test
                passes.append(1)

    loop = suspended(body)
    main = loop.main
    complaints = loop.close_body()
    assert "awaited again" in complaints[0]
    assert "did not let go" in complaints[1]
    assert len(passes) == 9
    assert main is not None
    assert main.cancelled()
    passes.extend([1] * 40)  # lets the collector end it quietly


def test_an_error_raised_while_closing_is_told_and_tasks_and_timers_are_refused() -> None:
    """`finally` can only clean up what is in memory."""

    async def nothing() -> None: ...

    async def failing(loop: FlowLoop) -> None:
        try:
            await loop.future()
        finally:
            raise KeyboardInterrupt("in finally")

    async def body(loop: FlowLoop) -> None:
        task = asyncio.create_task(failing(loop))
        try:
            await task
        finally:
            with pytest.raises(Exception, match="a timer was started"):
                loop.call_later(5, print)
            asyncio.create_task(nothing())  # noqa: RUF006 - refused

    (complaint,) = suspended(body).close_body()
    assert "raised while it was closed; KeyboardInterrupt: in finally" in complaint


def test_tasks_that_were_not_started_are_closed_quietly() -> None:
    """No warning that a coroutine was never awaited."""
    loop = FlowLoop(now=START)

    async def body() -> None: ...

    loop.start(body())
    assert loop.close_body() == []
