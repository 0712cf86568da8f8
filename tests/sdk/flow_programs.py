"""Run generated flow bodies and print what could be seen of them: the far end of `test_loop_determinism`.

Reads one JSON document per line from standard input, `{"program", "choices", "close_after"}`, and answers each with one
line, the trace. With the argument `other-hashes` tasks hash differently, which is what a body must never notice: the test
uses it to show that it would.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from torpor.sdk.loop import FlowFuture, FlowLoop, FlowTask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

ROUNDS = 300


class World:
    """What the nodes of one program share, and the trace."""

    def __init__(self, loop: FlowLoop) -> None:
        """Make the shared things."""
        self.loop = loop
        self.trace: list[str] = []
        self.calls: list[FlowFuture[Any]] = []
        self.spawned: list[asyncio.Task[Any]] = []
        self.lock = asyncio.Lock()
        self.semaphore = asyncio.Semaphore(2)
        self.queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        self.event = asyncio.Event()
        self.condition = asyncio.Condition()

    def note(self, text: str) -> None:
        """Write down something that a body saw."""
        task = asyncio.current_task()
        name = task.get_name() if task is not None else "-"
        self.trace.append(f"{self.loop.now} {name} {text}")

    async def call(self) -> object:
        """Wait for an answer from outside."""
        future = self.loop.future()
        self.calls.append(future)
        self.note(f"call {future.number}")
        try:
            return await future
        except BaseException as error:
            self.note(f"call {future.number} {type(error).__name__}")
            raise


def started(world: World, nodes: list[Any]) -> list[asyncio.Task[Any]]:
    """Start a task for each node."""
    return [asyncio.create_task(run(world, node)) for node in nodes]


async def call(world: World) -> None:
    """Call, and see the answer."""
    world.note(f"answer {await world.call()}")


async def sleep(world: World, seconds: int) -> None:
    """Sleep."""
    await asyncio.sleep(seconds)
    world.note("slept")


async def fail(world: World) -> None:
    """Fail after a turn of the queue."""
    await asyncio.sleep(0)
    world.note("failing")
    raise ValueError("generated")


async def sequence(world: World, nodes: list[Any]) -> None:
    """One after the other."""
    for node in nodes:
        await run(world, node)


async def gathered(world: World, nodes: list[Any]) -> None:
    """All at once; errors are results."""
    results = await asyncio.gather(*[run(world, node) for node in nodes], return_exceptions=True)
    world.note(f"gathered {[type(result).__name__ for result in results]}")


async def grouped(world: World, nodes: list[Any]) -> None:
    """All at once; one error ends all."""
    async with asyncio.TaskGroup() as group:
        for node in nodes:
            group.create_task(run(world, node))


async def first(world: World, nodes: list[Any]) -> None:
    """The first of several; the sets of asyncio are iterated, losers cancelled in their order."""
    done, pending = await asyncio.wait(started(world, nodes), return_when=asyncio.FIRST_COMPLETED)
    world.note(f"done {[task.get_name() for task in done]} pending {[task.get_name() for task in pending]}")
    for task in pending:
        task.cancel()
    await asyncio.gather(*done, *pending, return_exceptions=True)


async def completed(world: World, nodes: list[Any]) -> None:
    """In order of completion."""
    for following in asyncio.as_completed(started(world, nodes)):
        try:
            world.note(f"completed {await following}")
        except (ValueError, TimeoutError, ExceptionGroup) as error:
            world.note(f"completed {type(error).__name__}")


async def limited(world: World, seconds: int, node: list[Any]) -> None:
    """Within a time."""
    async with asyncio.timeout(seconds):
        await run(world, node)


async def waited(world: World, seconds: int, node: list[Any]) -> None:
    """Within a time, the older way."""
    await asyncio.wait_for(run(world, node), seconds)


async def attempted(world: World, node: list[Any]) -> None:
    """See errors and go on."""
    try:
        await run(world, node)
    except (ValueError, TimeoutError, ExceptionGroup) as error:
        world.note(f"caught {type(error).__name__}")


async def locked(world: World, node: list[Any]) -> None:
    """Under the shared lock, then under the semaphore."""
    async with world.lock:
        world.note("locked")
        await asyncio.sleep(0)
    async with world.semaphore:
        await run(world, node)


async def queued(world: World, node: list[Any]) -> None:
    """Through the shared queue, whose other end is served by a task of its own."""

    async def producer() -> None:
        for number in range(3):
            await world.queue.put(number)

    task = asyncio.create_task(producer())
    await run(world, node)
    for _ in range(3):
        world.note(f"got {await world.queue.get()}")
    await task


async def signalled(world: World, node: list[Any]) -> None:
    """With event and condition."""

    async def waiter() -> None:
        await world.event.wait()
        async with world.condition:
            await asyncio.wait_for(world.condition.wait(), 5)
        world.note("notified")

    task = asyncio.create_task(waiter())
    await run(world, node)
    world.event.set()
    await asyncio.sleep(0)
    async with world.condition:
        world.condition.notify_all()
    await asyncio.gather(task, return_exceptions=True)


async def shielded(world: World, node: list[Any]) -> None:
    """Shielded from a timeout."""
    inner = asyncio.ensure_future(run(world, node))
    world.spawned.append(inner)
    async with asyncio.timeout(2):
        await asyncio.shield(inner)


async def spawned(world: World, node: list[Any]) -> None:
    """In a task that nobody awaits."""
    world.spawned.append(asyncio.create_task(run(world, node)))


async def half_read(world: World, node: list[Any]) -> None:
    """From an async generator that is left in the middle."""

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(3):
                await run(world, node)
                yield number
        finally:
            world.note("generator closed")

    async for number in numbers():
        world.note(f"read {number}")
        break


NODES: dict[str, Callable[..., Any]] = {
    "call": call,
    "sleep": sleep,
    "fail": fail,
    "sequence": sequence,
    "gathered": gathered,
    "grouped": grouped,
    "first": first,
    "completed": completed,
    "limited": limited,
    "waited": waited,
    "attempted": attempted,
    "locked": locked,
    "queued": queued,
    "signalled": signalled,
    "shielded": shielded,
    "spawned": spawned,
    "half_read": half_read,
}


async def run(world: World, node: list[Any]) -> str:
    """Run one node and see how it ends."""
    name, *arguments = node
    assert isinstance(name, str)
    try:
        await NODES[name](world, *arguments)
    except asyncio.CancelledError:
        world.note(f"{name} cancelled")
        raise
    finally:
        world.note(f"{name} left")
    return name


def settle(world: World, choice: int) -> bool:
    """Answer an open call or fire an open timer, as the choice says. False if nothing is open."""
    calls = [future for future in world.calls if not future.done()]
    timers = world.loop.timers
    if not calls and not timers:
        return False
    index = choice % (len(calls) + len(timers))
    if index >= len(calls):
        timer = timers[index - len(calls)]
        world.trace.append(f"fire {timer}")
        world.loop.advance(timer.due_at)
        world.loop.fire(timer)
    elif choice % 5 == 0:
        calls[index].set_exception(ValueError("answered"))
    else:
        calls[index].set_result(choice)
    return True


def trace_of(document: dict[str, Any]) -> list[str]:
    """Run one program to its end, or close it after some rounds; return everything that was seen."""
    loop = FlowLoop(now=1_000_000_000)
    world = World(loop)
    main = loop.start(run(world, document["program"]))
    choices = document["choices"]
    for turn in range(ROUNDS):
        loop.pump()
        if main.done() or turn == document["close_after"]:
            break
        if not settle(world, choices[turn % len(choices)]):
            world.trace.append("nothing is open")
            break
    if main.done():
        world.trace.append(f"ended {main.exception()!r}")
        world.trace.extend(loop.cancel_leftovers())
    else:
        world.trace.extend(loop.close_body())
    return [*world.trace, f"steps {loop.steps}"]


def other_hash(task: FlowTask[Any]) -> int:
    """Put tasks into another order in every set."""
    return -task.number


def main() -> None:
    """Answer programs until standard input ends."""
    if "other-hashes" in sys.argv:
        FlowTask.__hash__ = other_hash  # type: ignore[method-assign,assignment]
    for line in sys.stdin:
        sys.stdout.write(json.dumps(trace_of(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
