"""Closing the bodies of a flow loop: the run suspends, its lease is lost, or the turn is over.

Suspending is not an exception that user code could catch by accident: each coroutine is closed, as Python closes a
generator, with `GeneratorExit` at its await. So `finally` blocks run. Rules, each from a body that went wrong without it:

- **Youngest first.** A `TaskGroup` that is left waits for its children. If they are closed before their parent, and the
  group is told, it has nobody to wait for; the other way round the parent would await again, through no fault of its author.
- **Nothing is resumed.** Closing settles tasks, and settled tasks make others ready. Of all that becomes ready only a
  `TaskGroup`'s own bookkeeping is run; a parent that went on as if its child had ended would be running on a lie.
- **Bounded.** `except BaseException` around an await can swallow the close. It is thrown a few more times, then the
  coroutine is dropped; either way it is said.
- **A refused call is no fault.** `finally: await ctx.step(cleanup)` is good code for the day the turn ends. Its refusal
  while the body is put away is not reported, unless it escaped from a body that had swallowed the close.
- **Async generators** that were left half-read keep the `finally` of their frame until the collector comes by, at a moment
  that replay could not repeat. The loop holds them, and closes them here in order of creation.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, cast

from torpor.sdk.loop_parts import FlowTask, place, told

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence

    from torpor.sdk.loop_parts import ReadyCall, TimerCall

_SWAP_CURRENT: Any = getattr(asyncio.tasks, "_swap_current_task", None)  # from Python 3.12 on
_FORGET_WAITING: Any = getattr(asyncio, "future_discard_from_awaited_by", None)  # from Python 3.14 on
ATTEMPTS = 8  # how often the close is thrown into one body


@contextmanager
def _current(loop: asyncio.AbstractEventLoop, task: FlowTask[Any]) -> Iterator[None]:
    """Let a task be the current one, also while a task of another loop runs: Python 3.14 has one for the whole thread."""
    if _SWAP_CURRENT is None:
        asyncio.tasks._enter_task(loop, task)  # noqa: SLF001 - asyncio's own API for task authors
        try:
            yield
        finally:
            asyncio.tasks._leave_task(loop, task)  # noqa: SLF001 - as above
        return
    before = _SWAP_CURRENT(loop, task)
    try:
        yield
    finally:
        _SWAP_CURRENT(loop, before)


class Closer:
    """Closes what is left on a loop; `complaints` tells what did not go as it should. Never raises."""

    def __init__(self, ready: deque[ReadyCall | TimerCall], refused: list[BaseException]) -> None:
        """Work on a loop's ready calls; `refused` are the errors by which calls were refused while closing."""
        self.ready = ready
        self.refused = refused
        self.complaints: list[str] = []

    def close_tasks(self, loop: asyncio.AbstractEventLoop, tasks: Sequence[FlowTask[Any]]) -> None:
        """Close the tasks' bodies, youngest first, and settle the tasks as cancelled."""
        for task in reversed(tasks):
            self._tell_groups()
            if task.done():
                continue
            waited = task._fut_waiter  # noqa: SLF001 - to untie task and future, below
            with _current(loop, task):
                self._close(task.guard.body, task.context.run)
            asyncio.Future.cancel(task)  # settles it; `Task.cancel` would only ask the coroutine, which is gone
            if waited is not None and not isinstance(waited, asyncio.Task):
                asyncio.Future.cancel(waited)  # drops its reference to the task: no cycle stays behind
            if waited is not None and _FORGET_WAITING is not None:
                _FORGET_WAITING(waited, task)  # the reference for those who print what waits for what
        self._tell_groups()

    def close_generators(self, generators: Iterable[AsyncGenerator[Any, Any]], *, at_end: bool) -> None:
        """Close half-read async generators. At the end of a turn being half-read is a fault of its own."""
        for generator in generators:
            if not half_read(generator):
                continue
            if at_end:
                self.complaints.append(
                    f"async generator {place(generator)} was left half-read; use `contextlib.aclosing`"
                )
            closing = generator.aclose()
            try:
                closing.send(None)
            except (StopIteration, StopAsyncIteration):
                continue
            except BaseException as error:  # noqa: BLE001 - user code; every error of it is told
                self._judge(error, place(generator), swallowed=False)
                continue
            self.complaints.append(f"async generator {place(generator)} awaited while it was closed")
            self._exhaust(closing.throw)

    def tell_unasked(self, tasks: Iterable[FlowTask[Any]], main: FlowTask[Any] | None) -> None:
        """Tell the exceptions of tasks that nobody awaited, and let go of what cancelled tasks hold."""
        for task in tasks:
            if task.cancelled():
                _let_go(cast("Any", task)._make_cancelled_error())  # noqa: SLF001 - the task gives up its error with this call
            elif task is not main and task.done() and task._log_traceback:  # noqa: SLF001 - "nobody asked"
                task._log_traceback = False  # noqa: SLF001 - told once
                message = "an exception in a task that nobody awaited"
                self.complaints.append(told({"message": message, "task": task, "exception": task.exception()}))

    def _close(self, body: Any, run: Callable[..., Any]) -> None:
        """Throw the close into one body until it lets go."""
        where = place(body)
        closing = GeneratorExit()
        try:
            run(body.throw, closing)
        except StopIteration:
            self.complaints.append(
                f"{where}: swallowed its close; write `except Exception`, not `except BaseException`"
            )
        except BaseException as error:  # noqa: BLE001 - user code; every error of it is judged
            self._judge(error, where, swallowed=not _follows(error, closing))
            _let_go(error)
        else:
            self.complaints.append(f"{place(body)}: awaited again while it was closed (at {where})")
            self._exhaust(lambda error: run(body.throw, error))
        closing.__traceback__ = None  # ends in this very frame, which refers to it

    def _exhaust(self, throw: Callable[[BaseException], object]) -> None:
        """Throw the close again, a bounded number of times."""
        for _ in range(ATTEMPTS):
            try:
                throw(GeneratorExit())
            except BaseException as error:  # noqa: BLE001 - over at last; the fault was told already
                _let_go(error)
                return
        self.complaints.append(f"it did not let go after {ATTEMPTS} attempts and was dropped")

    def _judge(self, error: BaseException, where: str, *, swallowed: bool) -> None:
        """Tell an error that came out of a closed body, unless it is the close itself or a refused call."""
        rest: BaseException | None = error
        if isinstance(error, BaseExceptionGroup):
            rest = error.split(lambda part: self._expected(part))[1]  # noqa: PLW0108 - 3.11 takes plain functions only
        elif self._expected(error):
            rest = None
        if rest is not None:
            self.complaints.append(told({"message": f"{where}: raised while it was closed", "exception": rest}))
        elif swallowed:
            self.complaints.append(f"{where}: swallowed its close and went on; write `except Exception`")

    def _expected(self, error: BaseException) -> bool:
        return isinstance(error, GeneratorExit) or any(error is known for known in self.refused)

    def _tell_groups(self) -> None:
        """Let task groups count their finished children; drop everything else that became ready."""
        while self.ready:
            entry = self.ready.popleft()
            if entry.call is not None and isinstance(getattr(entry.call, "__self__", None), asyncio.TaskGroup):
                entry.context.run(entry.call, *entry.arguments)


def half_read(generator: object) -> bool:
    """Tell whether an async generator was started and has not ended."""
    return getattr(generator, "ag_frame", None) is not None


def _let_go(error: BaseException) -> None:
    """Empty the frames that an error went through: they refer to the body, the error, and often to each other."""
    clear_frames(error.__traceback__)
    error.__traceback__ = None


def _follows(error: BaseException, closing: GeneratorExit) -> bool:
    """Tell whether an error was raised while the close was on its way (in a `finally`), or after it was swallowed."""
    seen: BaseException | None = error
    for _ in range(sys.getrecursionlimit()):
        if seen is closing:
            return True
        if isinstance(seen, BaseExceptionGroup):
            return True  # a group of errors hides its order; only a plain error can prove that the close was swallowed
        if seen is None:
            return False
        seen = seen.__context__
    return True
