"""What a flow loop is made of: its futures, its tasks, its timers, and the calls that wait for their turn.

**Hash by number.** asyncio keeps tasks and futures in sets (`wait`, `TaskGroup`, `as_completed`), and a set iterates in the
order of hashes. By default that is the order of addresses, so cancelling "all of them" would go in another order when the
turn is replayed. Here the hash is the number of creation in the turn, the same in every process.

**But not while asyncio registers a task.** Every task also lands in one global `WeakSet` of the process, which hashes it
once, inside `Task.__init__`. The first task of each of ten thousand flows has the same number; ten thousand equal hashes in
one set are a scan of all of them for each new task. So the number is given after that; until then the hash is the address.

**A guard around each coroutine.** asyncio's C task throws `RuntimeError` into a coroutine that awaited something of another
loop, or yielded something that is not a future. The guard sits in that path, and only there: sending a value goes straight
to the coroutine, throwing turns such an error into a `UsageError` at the very line of the await.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from contextvars import Context

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PUT_IT_IN_A_STEP = "put it in a step: `await ctx.step(function, ...)`; a flow body has no IO and no clock of its own"
MICROSECONDS = 1_000_000

_ASYNCIO = str(Path(asyncio.__file__).parent)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+", re.IGNORECASE)
_REFUSED_BY_ASYNCIO = ("attached to a different loop", "got bad yield", "yield was used instead of yield from")


class ReadyCall(asyncio.Handle):
    """A call that waits for its turn. Lighter than asyncio's: no debug traceback, no loop."""

    __slots__ = ("arguments", "call", "context")

    def __init__(self, call: Callable[..., object], arguments: tuple[Any, ...], context: Context) -> None:
        """Keep what to call, and in which context."""
        self.call: Callable[..., object] | None = call
        self.arguments = arguments
        self.context = context

    def cancel(self) -> None:
        """Make the call do nothing when its turn comes."""
        self.call = None

    def cancelled(self) -> bool:
        """Whether the call was cancelled."""
        return self.call is None

    def __repr__(self) -> str:
        """Name the call."""
        return f"<{type(self).__name__} {self.call!r}>"


class Timer:
    """A durable timer of a turn: a wait that the caller journals. `due_at` is in microseconds UTC."""

    __slots__ = ("cancelled", "due_at", "entry", "fired", "number")

    def __init__(self, number: int, due_at: int, entry: TimerCall) -> None:
        """Open a timer; `number` counts the timers of this turn from 1."""
        self.number = number
        self.due_at = due_at
        self.entry = entry
        self.cancelled = False
        self.fired = False

    def __repr__(self) -> str:
        """Show number, due time and fate."""
        fate = "fired" if self.fired else "cancelled" if self.cancelled else "open"
        return f"<Timer {self.number} due_at={self.due_at} {fate}>"


_WAKES_SLEEPER = "_set_result_unless_cancelled"
"""What `asyncio.sleep` asks to be called, in every version there is."""


class TimerCall(asyncio.TimerHandle):
    """What `call_later` and `call_at` return: the call behind a `Timer`, in the shape that asyncio expects."""

    __slots__ = ("arguments", "call", "context", "due_at", "number", "open_timers")

    def __init__(self, due_at: int, call: Callable[..., object], arguments: tuple[Any, ...], context: Context) -> None:
        """Keep what to call; without a number the moment has already come."""
        self.due_at = due_at
        self.call: Callable[..., object] | None = call
        self.arguments = arguments
        self.context = context
        self.number = 0
        self.open_timers: dict[int, Timer] = {}

    @property
    def sleeper(self) -> asyncio.Future[Any] | None:
        """The future that `asyncio.sleep` waits for, if this is a sleep; None for a timeout and other calls."""
        named = getattr(self.call, "__name__", "")
        return self.arguments[0] if named == _WAKES_SLEEPER else None

    def cancel(self) -> None:
        """Withdraw the timer if it is open; make a call that is ready do nothing."""
        self.call = None
        timer = self.open_timers.pop(self.number, None)
        if timer is not None:
            timer.cancelled = True

    def cancelled(self) -> bool:
        """Whether the call was cancelled."""
        return self.call is None

    def when(self) -> float:
        """Return the due time in seconds of loop time."""
        return self.due_at / MICROSECONDS

    def __hash__(self) -> int:
        """Hash by due time."""
        return hash(self.due_at)

    def __eq__(self, other: object) -> bool:
        """Compare by identity: two timers due at one moment are two timers."""
        return self is other

    def __repr__(self) -> str:
        """Name the call and the timer."""
        return f"<TimerCall {self.number} {self.call!r}>"


class FlowFuture(asyncio.Future[T]):
    """A future of a flow loop. `stubborn` ones ignore `cancel()`: an effect past its gate is waited for."""

    __slots__ = ("number", "stubborn")

    number: int
    stubborn: bool

    def cancel(self, msg: object | None = None) -> bool:
        """Cancel it, unless it is stubborn. The task that waits for a stubborn one is cancelled once it has its outcome."""
        return False if self.stubborn else super().cancel(msg)

    def __hash__(self) -> int:
        """Hash by number of creation."""
        return self.number


class FlowTask(asyncio.Task[T_co]):
    """A task of a flow loop. `context` is the context that its coroutine runs in."""

    __slots__ = ("context", "guard", "number")

    number: int
    guard: GuardedBody
    context: Context

    def get_coro(self) -> Generator[Any, Any, Any] | Coroutine[Any, Any, Any]:
        """Return the author's coroutine, not the guard around it."""
        return self.guard.body

    def __hash__(self) -> int:
        """Hash by number of creation."""
        return self.number


class GuardedBody:
    """A coroutine whose thrown-in errors are explained. `send` is the coroutine's own, so a step costs nothing more."""

    __slots__ = ("body", "close", "send")

    def __init__(self, body: Generator[Any, Any, Any] | Coroutine[Any, Any, Any]) -> None:
        """Stand in front of a coroutine."""
        self.body = body
        self.send = body.send
        self.close = body.close

    def throw(self, error: BaseException) -> object:
        """Throw an error into the coroutine, in torpor's words if asyncio made it because of a wrong await."""
        if type(error) is RuntimeError and error.__traceback__ is None:
            error = explained(error)
        return self.body.throw(error)

    def __getattr__(self, name: str) -> object:
        """Look like the coroutine (`cr_frame`, `__qualname__`) to those who print tasks."""
        return getattr(self.body, name)


Coroutine.register(GuardedBody)


def explained(error: RuntimeError) -> RuntimeError | UsageError:
    """Turn asyncio's complaint about a wrong await into a `UsageError`; leave every other error alone."""
    text = str(error)
    if not any(phrase in text for phrase in _REFUSED_BY_ASYNCIO):
        return error
    message = (
        f"a flow body can await torpor's calls and asyncio's own primitives, nothing else: {without_addresses(text)}"
    )
    return UsageError(message, hint=PUT_IT_IN_A_STEP)


def without_addresses(text: str) -> str:
    """Take memory addresses out of a text: a flow may use an error's text, and it must be the same on replay."""
    return _ADDRESS.sub("", text)


def new_future(loop: asyncio.AbstractEventLoop, number: int, *, stubborn: bool = False) -> FlowFuture[Any]:
    """Make a future. Its fields are set from outside: a Python `__init__` would cost as much as the future."""
    future: FlowFuture[Any] = FlowFuture(loop=loop)
    future.number = number
    future.stubborn = stubborn
    return future


def new_task(
    loop: asyncio.AbstractEventLoop,
    number: int,
    body: Generator[Any, None, T] | Coroutine[Any, Any, T],
    *,
    name: str | None,
    context: Context,
) -> FlowTask[T]:
    """Make a task, with a name that is the same on replay (asyncio's count goes over the whole process)."""
    task: FlowTask[T] = FlowTask.__new__(FlowTask)
    task.number = id(task) >> 4  # for asyncio's registry; see the top of this file
    guard = GuardedBody(body)
    asyncio.Task.__init__(
        task, cast("Coroutine[Any, Any, T]", guard), loop=loop, name=name or f"Task-{number}", context=context
    )
    task.number = number
    task.guard = guard
    task.context = context
    return task


def place(body: object) -> str:
    """Say where a suspended coroutine stands: `file:line in name`, the innermost place that is not asyncio's own."""
    seen: object = body
    found = getattr(body, "__qualname__", type(body).__name__)
    while seen is not None:
        frame = getattr(seen, "cr_frame", None) or getattr(seen, "gi_frame", None) or getattr(seen, "ag_frame", None)
        if frame is None:
            break
        if not frame.f_code.co_filename.startswith(_ASYNCIO):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno} in {getattr(seen, '__qualname__', '?')}"
        seen = getattr(seen, "cr_await", None) or getattr(seen, "gi_yieldfrom", None) or getattr(seen, "ag_await", None)
    return found


def told(context: Mapping[str, Any]) -> str:
    """Put asyncio's exception context into one line."""
    subject = context.get("task") or context.get("future") or context.get("handle") or context.get("asyncgen")
    error = context.get("exception")
    parts = [str(context.get("message", "an error without a message"))]
    if isinstance(subject, asyncio.Task):
        parts.append(f"in {subject.get_name()} ({place(subject.get_coro())})")
    if error is not None:
        parts.append(f"{type(error).__name__}: {error}{_origin(error)}")
    return without_addresses("; ".join(parts))


def _origin(error: BaseException) -> str:
    """Say which line raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
