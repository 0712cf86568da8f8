"""Running an author's function: on the worker's loop if it is async, in a thread if it is not, with its own contextvars.

Whoever calls gets a callback on the loop with the result or the exception; it is never raised here. From Python 3.12 on a
function begins at once, not in the loop's next round, and one that never waits has ended before `start` returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from torpor.errors import TorporError
from torpor.worker.threads import Lent

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from torpor.sdk.steps import Definition, EffectContext
    from torpor.worker.threads import Threads


class Calls:
    """Runs functions for all executors of a worker."""

    def __init__(self, threads: Threads) -> None:
        """Use a pool for functions that block; made on the worker's loop."""
        self._threads = threads
        self._loop = asyncio.get_running_loop()

    def start(
        self,
        definition: Definition,
        values: dict[str, Any],
        context: EffectContext | None,
        done: Callable[[Any, BaseException | None], None],
        within: contextvars.Context | None = None,
    ) -> asyncio.Future[Any]:
        """Start a call and return what cancels it. `done(result, error)` is called once, perhaps before this returns.

        The function runs in a copy of the present context, or in the one that is given (`worker.tracing`, `sdk.steps`).
        """
        args = values["args"] if context is None else (context, *values["args"])
        more = values.get("more", {})
        if not definition.is_async:
            work = self._in_thread(definition, args, more)
        elif definition.timeout_seconds is None:
            work = definition.function(*args, **more)
        else:
            work = _within(definition.timeout_seconds, definition.function, args, more)
        if definition.within is None:
            running = _begin(self._loop, work, within)
        else:  # it is somebody else's framework, which expects that a task begins in a round of its own
            running = self._loop.create_task(work, context=within)
        if running.done():
            _finished(done, running)
        else:
            running.add_done_callback(partial(_finished, done))
        if context is not None:  # after `done`: what it recorded decides what becomes of what was emitted
            running.add_done_callback(lambda ended: context.voice.ended(cancelled=ended.cancelled()))
        return running

    async def _in_thread(self, definition: Definition, args: Sequence[Any], more: dict[str, Any]) -> Any:
        call = partial(definition.function, *args, **more)
        result = await _within(definition.timeout_seconds, self.in_thread, (call,), {})
        if inspect.isawaitable(result):  # a callable object or a partial whose call is async
            result = await result
        return result

    def lend(self) -> Lent:
        """Return threads for what a call runs in some by itself."""
        return Lent(self._threads)

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Run something that may block, with its own contextvars; if this is cancelled, its thread is given up."""
        running = self._threads.submit(contextvars.copy_context().run, call)
        try:
            return await asyncio.wrap_future(running)
        finally:
            if not running.done():
                self._threads.give_up(running)


if sys.version_info >= (3, 12):

    def _begin(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], within: contextvars.Context | None
    ) -> asyncio.Task[Any]:
        if loop.get_task_factory() is not None:  # somebody wants to know of each task
            return loop.create_task(work, context=within)
        return asyncio.Task(work, loop=loop, eager_start=True, context=within)

else:

    def _begin(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], within: contextvars.Context | None
    ) -> asyncio.Task[Any]:
        return loop.create_task(work, context=within)


def _finished(done: Callable[[Any, BaseException | None], None], ended: asyncio.Future[Any]) -> None:
    if ended.cancelled():
        done(None, asyncio.CancelledError())
    elif (error := ended.exception()) is not None:
        done(None, error)
    else:
        done(ended.result(), None)


async def _within(
    seconds: float | None, function: Callable[..., Any], args: Sequence[Any], more: dict[str, Any]
) -> Any:
    """Wait for a call as long as its timeout lets it, for ever if there is none; what it raises then says the limit."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await function(*args, **more)
    except TimeoutError as error:
        if limit.expired() and not error.args:
            error.args = (f"no answer within {seconds:g} s, its timeout",)
        raise


def described(error: BaseException) -> dict[str, Any]:
    """Return what is kept of an exception: its class's name, its text and as a hint its notes, storable whatever it was."""
    if isinstance(error, TorporError):
        more = {name: said for name in ("hint", "said") if (said := getattr(error, name, None))}
        return {"kind": type(error).__name__, "detail": error.message, **more}
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    return {"kind": type(error).__name__, "detail": str(error), **({"hint": "; ".join(notes)} if notes else {})}
