"""What a flow body must not do is refused at the line that did it, with the next step as a hint."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
import traceback
import types
from typing import TYPE_CHECKING, Any

import pytest

from torpor.errors import UsageError
from torpor.sdk.loop import FlowLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

START = 1_700_000_000_000_000


def refused(make: Callable[[], Awaitable[object]]) -> UsageError:
    """Run a body that must be refused; the error has to come up inside the body, at its own line."""
    loop = FlowLoop(now=START)

    async def body() -> UsageError:
        try:
            await make()  # the refused line
        except UsageError as error:
            return error
        raise AssertionError("it was allowed")

    task = loop.start(body())
    loop.pump()
    error = task.result()
    lines = [frame.line for frame in traceback.extract_tb(error.__traceback__)]
    assert "await make()  # the refused line" in lines
    loop.cancel_leftovers()
    return error


@types.coroutine
def bare_yield(value: object) -> Generator[object, object, None]:
    """Yield as a coroutine of another library would."""
    yield value


@pytest.mark.parametrize("value", ["text", 5, (letter for letter in "text")])
def test_a_bare_yield_is_refused(value: object) -> None:
    """What is not a future cannot be waited for."""
    assert "put it in a step" in refused(lambda: bare_yield(value)).hint


def test_a_future_of_another_loop_is_refused() -> None:
    """Its outcome would not be in the journal. The text has no address: a flow may use it."""
    other = asyncio.new_event_loop()
    future = other.create_future()
    error = refused(lambda: future)
    assert "attached to a different loop" in error.message
    assert "0x" not in error.message
    assert "put it in a step" in error.hint
    other.close()


def test_a_future_of_another_flow_is_refused() -> None:
    """Also when the other loop is torpor's."""
    future = FlowLoop(now=START).future()
    assert "put it in a step" in refused(lambda: future).hint


def test_an_error_of_the_author_is_left_alone() -> None:
    """A `RuntimeError` that a call ended with arrives as it is."""
    loop = FlowLoop(now=START)
    future = loop.future()
    future.set_exception(RuntimeError("mine"))

    async def body() -> None:
        await future

    task = loop.start(body())
    loop.pump()
    assert repr(task.exception()) == "RuntimeError('mine')"


def waits_for(*futures: asyncio.Future[Any]) -> Coroutine[Any, Any, Any]:
    """Wait for futures as they are."""
    return asyncio.wait(futures)


def test_wait_refuses_futures_of_another_loop() -> None:
    """It is not asyncio that checks this: it not; the body would be woken from outside of the journal."""
    other = asyncio.new_event_loop()
    future = other.create_future()
    assert "not the flow's" in refused(lambda: waits_for(future)).message
    other.close()


def test_wait_refuses_futures_without_a_number() -> None:
    """`gather` makes a future of its own; in a set it would stand in another place on replay."""

    async def gathered() -> object:
        loop = asyncio.get_running_loop()
        return await waits_for(asyncio.gather(loop.create_future(), loop.create_future()))

    assert "task of its own" in refused(gathered).hint


def test_as_completed_refuses_coroutines() -> None:
    """They would start in the order of their addresses; none is left unawaited."""

    async def nothing() -> None: ...

    async def completed() -> None:
        for following in asyncio.as_completed([nothing(), nothing(), nothing()]):
            await following

    assert "create_task" in refused(completed).hint


def test_as_completed_refuses_awaitables() -> None:
    """Whatever is not a task or a future becomes a coroutine on the way."""

    class Later:
        def __await__(self) -> Generator[object, object, None]:
            yield None

    async def completed() -> None:
        for following in asyncio.as_completed([Later()]):
            await following

    assert "create_task" in refused(completed).hint


def test_all_tasks_is_refused_in_a_flow_only() -> None:
    """It has no order there; other loops do not notice the witness."""

    async def all_of_them() -> object:
        return asyncio.all_tasks()

    assert "TaskGroup" in refused(all_of_them).hint
    assert len(asyncio.run(all_of_them())) == 1  # type: ignore[arg-type]


def test_threads_are_refused() -> None:
    """`to_thread`, executors, and a concurrent future that is wrapped."""
    assert "put it in a step" in refused(lambda: asyncio.to_thread(print)).hint
    assert "put it in a step" in refused(lambda: asyncio.get_running_loop().run_in_executor(None, print)).hint
    outcome: concurrent.futures.Future[None] = concurrent.futures.Future()
    assert "another thread" in refused(lambda: asyncio.wrap_future(outcome)).message


def test_processes_and_connections_are_refused() -> None:
    """The front doors of asyncio lead to the loop's refusals."""
    assert "subprocess_exec" in refused(lambda: asyncio.create_subprocess_exec("true")).message
    assert "create_connection" in refused(lambda: asyncio.open_connection("localhost", 1)).message


def test_every_method_of_an_event_loop_is_there_or_refused() -> None:
    """Every method of asyncio's interface is answered here, on whatever Python this runs."""
    missing = [
        name
        for name, method in inspect.getmembers(asyncio.AbstractEventLoop, inspect.isfunction)
        if not name.startswith("_") and getattr(FlowLoop, name) is method
    ]
    assert missing == []
    loop: Any = FlowLoop(now=START)
    for name in ("run_forever", "close", "add_reader", "add_signal_handler", "set_task_factory", "sock_recv"):
        with pytest.raises(UsageError, match=f"`{name}`"):
            getattr(loop, name)()


def test_another_thread_cannot_call_into_the_loop() -> None:
    """Nobody would know on replay when its call came. From inside the body it is a plain call."""
    loop = FlowLoop(now=START)
    seen: list[object] = []

    def intrude() -> None:
        try:
            loop.call_soon_threadsafe(seen.append, "intruder")
        except UsageError as error:
            seen.append(error.hint)

    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()

    async def body() -> None:
        asyncio.get_running_loop().call_soon_threadsafe(seen.append, "own")
        await asyncio.sleep(0)

    loop.start(body())
    loop.pump()
    assert len(seen) == 2
    assert "put it in a step" in str(seen[0])
    assert seen[1] == "own"
    loop.cancel_leftovers()


def test_what_is_no_coroutine_is_a_type_error() -> None:
    """As in asyncio."""
    loop = FlowLoop(now=START)
    wrong: Any = 5
    with pytest.raises(TypeError, match="a coroutine was expected"):
        loop.create_task(wrong)


def test_the_defaults_of_a_loop_say_so() -> None:
    """No debug mode, no task factory; a task prints as asyncio prints it."""
    loop = FlowLoop(now=START)
    loop.set_debug(True)
    assert not loop.get_debug()
    assert loop.get_task_factory() is None  # type: ignore[func-returns-value]
    assert not loop.is_running()
    assert not loop.is_closed()

    async def body() -> None: ...

    coroutine = body()
    task = loop.start(coroutine)
    assert task.get_coro() is coroutine
    assert "coro=<test_the_defaults_of_a_loop_say_so.<locals>.body()" in repr(task)
    assert [frame.f_code.co_name for frame in task.get_stack()] == ["body"]
    loop.close_body()
    assert loop.is_closed()
