"""Driving a flow loop: order, time, timers, futures, and its place among other loops and threads."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from typing import Any

import pytest

from torpor.errors import UsageError
from torpor.sdk.loop import FlowFuture, FlowLoop, Timer

START = 1_700_000_000_000_000
SECOND = 1_000_000


def fire(loop: FlowLoop, timer: Timer) -> None:
    """Do what the executor does when a timer won."""
    loop.advance(timer.due_at)
    loop.fire(timer)
    loop.pump()


def test_a_body_waits_for_a_future_and_ends() -> None:
    """The shortest life of a loop."""
    loop = FlowLoop(now=START)
    future = loop.future()

    async def body() -> int:
        return 1 + int(await future)

    task = loop.start(body())
    loop.pump()
    assert not task.done()
    future.set_result(41)
    assert not task.done()
    loop.pump()
    assert task.result() == 42
    assert loop.cancel_leftovers() == []
    assert loop.steps == 2


def test_a_loop_has_one_main_task() -> None:
    """A second body is refused, and its coroutine is not left unawaited."""
    loop = FlowLoop(now=START)

    async def body() -> None: ...

    loop.start(body())
    with pytest.raises(UsageError, match="already has a main task"):
        loop.start(body())
    loop.close_body()


def test_tasks_and_futures_hash_by_number_and_have_stable_names() -> None:
    """Hash and default name depend on the turn only, not on the process."""
    loop = FlowLoop(now=START)

    async def nothing() -> None: ...

    async def body() -> list[object]:
        first = asyncio.create_task(nothing())
        second = asyncio.create_task(nothing(), name="mine")
        future = loop.create_future()
        return [hash(first), first.get_name(), hash(second), second.get_name(), hash(future)]

    task = loop.start(body())
    loop.pump()
    assert (hash(task), task.get_name()) == (1, "Task-1")
    assert task.result() == [2, "Task-2", 3, "mine", 4]


def test_equal_numbers_do_not_collide_in_the_registry_of_asyncio() -> None:
    """The first tasks of many flows share a number; in asyncio's global set of tasks they must not share a hash.

    From Python 3.14 on a list is kept of them.
    """
    registry: Any = getattr(asyncio.tasks, "_scheduled_tasks", None)
    if registry is None:
        registry = asyncio.tasks._all_tasks  # type: ignore[attr-defined]  # noqa: SLF001 - its name in Python 3.11

    async def body() -> None: ...

    loops = [FlowLoop(now=START) for _ in range(200)]
    tasks = [loop.start(body()) for loop in loops]
    hashes = [hash(reference) for reference in registry.data if reference() in tasks]
    assert len(hashes) == len(set(hashes)) == (200 if sys.version_info < (3, 14) else 0)
    for loop in loops:
        loop.close_body()


def test_cancelling_a_group_goes_in_order_of_creation() -> None:
    """A `TaskGroup` iterates over a set; its order is the order of creation, whatever the addresses."""
    loop = FlowLoop(now=START)
    cancelled: list[int] = []

    async def child(number: int) -> None:
        try:
            await loop.future()
        finally:
            cancelled.append(number)

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(12):
                group.create_task(child(number))
            await asyncio.sleep(0)
            raise ValueError("out")

    task = loop.start(body())
    loop.pump()
    assert isinstance(task.exception(), ExceptionGroup)
    assert cancelled == list(range(12))


def test_as_completed_over_tasks_yields_in_order_of_completion() -> None:
    """Tasks hash by number, so `as_completed` over tasks is allowed."""
    loop = FlowLoop(now=START)
    futures = [loop.future() for _ in range(5)]

    async def wait(number: int) -> int:
        await futures[number]
        return number

    async def body() -> list[int]:
        tasks = [asyncio.create_task(wait(number)) for number in range(5)]
        return [await following for following in asyncio.as_completed(tasks)]

    task = loop.start(body())
    loop.pump()
    for number in (3, 0, 4, 2, 1):
        futures[number].set_result(None)
    loop.pump()
    assert task.result() == [3, 0, 4, 2, 1]


def test_an_endless_body_is_stopped() -> None:
    """A loop over `sleep(0)` would hold the worker for ever."""
    loop = FlowLoop(now=START)

    async def body() -> None:
        while True:  # noqa: ASYNC110 - the fault under test
            await asyncio.sleep(0)

    loop.start(body())
    with pytest.raises(UsageError, match=r"ran 1000 calls without waiting .*test_loop.py:\d+ in ") as caught:
        loop.pump(limit=1000)
    assert "never ends" in caught.value.hint
    assert loop.steps == 1000
    assert loop.close_body() == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interrupts_leave_the_pump_and_the_state_is_restored(kind: type[BaseException]) -> None:
    """The loop stays whole: it can be pumped on, and closed."""
    loop = FlowLoop(now=START)
    future = loop.future()

    async def interrupted() -> None:
        raise kind

    async def body() -> object:
        task = asyncio.create_task(interrupted())
        result = await future
        assert task.done()
        return result

    main = loop.start(body())
    with pytest.raises(kind):
        loop.pump()
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
    future.set_result("on")
    loop.pump()
    assert main.result() == "on"
    loop.cancel_leftovers()


def test_errors_nobody_awaits_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """An exception in a forgotten task and one in a callback are complaints; nothing is printed."""
    loop = FlowLoop(now=START)

    async def forgotten() -> None:
        raise ValueError("lost")

    async def body() -> None:
        task = asyncio.create_task(forgotten())
        loop.call_soon(int, "no number")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task

    loop.start(body())
    loop.pump()
    complaints = loop.cancel_leftovers()
    assert len(complaints) == 2
    assert "invalid literal" in complaints[0]
    assert "nobody awaited; in Task-2" in complaints[1]
    assert "ValueError: lost at " in complaints[1]
    assert capsys.readouterr() == ("", "")


def test_complaints_are_bounded() -> None:
    """A body in a bad loop does not fill the memory with complaints."""
    loop = FlowLoop(now=START)
    for _ in range(500):
        loop.call_soon(int, "no number")
    loop.pump()
    assert len(loop.complaints) == 100


def test_a_body_has_its_own_copy_of_the_context() -> None:
    """It sees what the driver had at the start; what it sets stays inside."""
    loop = FlowLoop(now=START)
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("outside")

    async def body() -> str:
        before = variable.get()
        variable.set("inside")
        await loop.future()
        return f"{before} {variable.get()}"

    task = loop.start(body())
    loop.pump()
    variable.set("changed")
    for future in [task._fut_waiter]:  # type: ignore[attr-defined]  # noqa: SLF001 - the future that the body made
        future.set_result(None)
    loop.pump()
    assert task.result() == "outside inside"
    assert variable.get() == "changed"


def test_two_loops_take_turns_in_one_thread() -> None:
    """Each pump sets its own running loop and puts the former back."""
    loops = [FlowLoop(now=START), FlowLoop(now=START)]
    queues: list[list[FlowFuture[Any]]] = [[], []]
    seen: list[tuple[int, int]] = []

    async def body(index: int) -> None:
        for turn in range(3):
            future = loops[index].future()
            queues[index].append(future)
            await future
            assert asyncio.get_running_loop() is loops[index]
            seen.append((turn, index))

    tasks = [loop.start(body(index)) for index, loop in enumerate(loops)]
    for _ in range(4):
        for index, loop in enumerate(loops):
            if queues[index]:
                queues[index].pop().set_result(None)
            loop.pump()
    assert all(task.done() for task in tasks)
    assert seen == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_loops_run_in_several_threads_at_once() -> None:
    """Threads share nothing but asyncio's registry of tasks."""
    results: list[int] = []
    barrier = threading.Barrier(4)

    def drive() -> None:
        barrier.wait()
        loop = FlowLoop(now=START)

        async def child(number: int) -> int:
            await asyncio.sleep(number % 2)
            return number

        async def body() -> int:
            return sum(await asyncio.gather(*[child(number) for number in range(200)]))

        task = loop.start(body())
        loop.pump()
        while not task.done():
            fire(loop, loop.timers[0])
        results.append(task.result())
        assert loop.cancel_leftovers() == []

    threads = [threading.Thread(target=drive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [sum(range(200))] * 4


def test_a_callback_of_another_loop_drives_it() -> None:
    """As the worker does: a step ends on the worker's loop, its callback settles the future and pumps."""

    async def worker() -> str:
        outer = asyncio.get_running_loop()
        loop = FlowLoop(now=START)
        future = loop.future()
        ended = outer.create_future()

        async def body() -> str:
            return f"{await future} {asyncio.get_running_loop() is loop}"

        def answer() -> None:
            future.set_result("answered")
            loop.pump()
            assert asyncio.get_running_loop() is outer
            ended.set_result(main.result())

        main = loop.start(body())
        outer.call_soon(loop.pump)
        outer.call_soon(answer)
        result: str = await ended
        return result

    assert asyncio.run(worker()) == "answered True"


def test_pumping_inside_a_task_is_refused() -> None:
    """Python 3.14 refuses it, so no version may do it."""

    async def worker() -> None:
        loop = FlowLoop(now=START)

        async def body() -> None: ...

        loop.start(body())
        try:
            loop.pump()
        finally:
            loop.close_body()

    with pytest.raises(UsageError, match="pumped inside") as caught:
        asyncio.run(worker())
    assert "plain callback" in caught.value.hint


def test_a_stuck_body_is_explained() -> None:
    """A body that waits for what nobody will settle is told with its place."""
    loop = FlowLoop(now=START)

    async def body() -> None:
        await asyncio.Event().wait()

    loop.start(body())
    loop.pump()
    error = loop.stuck()
    assert "Task-1 at " in error.message
    assert "test_loop.py:" in error.message
    assert "put it in a step" in error.hint
    loop.close_body()


def test_many_tasks_are_let_go_when_they_are_done() -> None:
    """A long turn does not hold every task it ever had."""
    loop = FlowLoop(now=START)

    async def nothing() -> None: ...

    async def body() -> None:
        for _ in range(2000):
            await asyncio.create_task(nothing())

    loop.start(body())
    loop.pump()
    assert len(loop._tasks) <= 64  # noqa: SLF001 - nothing else shows what is held
    assert loop.cancel_leftovers() == []
