"""The small event loop that one flow body runs on.

It has no IO, no thread and no clock. Somebody else drives it, from a plain callback of the worker's own loop or from no loop
at all: it settles a future or fires a timer, then calls `pump()`, which runs everything that is ready, in order, and
returns. When `pump()` returned and the body has not ended, the body waits for something durable. The rules, and why:

1. **First in, first out.** One queue of ready calls and nothing else decides the order. Replay settles the same futures in
   the same order, therefore the body does the same things in the same order, in any process.
2. **Tasks and futures hash by number** (`loop_parts`), since asyncio keeps them in sets and iterates over those.
3. **Loop time is the checkpoint's time and moves only by `advance`**, with journaled entries. If it followed a clock, a
   replayed `timeout(60)` would end at another moment than the recorded one.
4. **Sleeps and timeouts are durable timers.** `call_later` opens a `Timer`, numbered in order of creation; the caller
   makes a wait of it, journals which one was first, advances the time, fires it. What is due already, `sleep(0)` too, is
   only a turn of the queue.
5. **An await that is not torpor's is a `UsageError`**, raised at that await (`loop_refusals`, `loop_parts.GuardedBody`):
   its outcome would not be in the journal. The same for whatever has no stable order: `as_completed` over
   coroutines, `all_tasks`, `wait` on a `gather`.
6. **The loop holds its tasks and started async generators**, where asyncio holds them weakly: what the garbage collector
   does, and when, must not be seen by a body.
7. **Never inside a task of another loop.** Python 3.14 has one current task per thread and refuses a second; earlier ones
   let it pass, so this loop refuses it everywhere. The running loop and the hooks for async generators are put back
   after each pump, so several flow loops can take turns in one thread.
8. **Errors nobody awaits are told, not printed**: `complaints`. `KeyboardInterrupt` and `SystemExit` leave `pump()`.
9. **The end is closing** (`loop_closing`): `cancel_leftovers` when the turn is over, `close_body` when the run is put away.
   After that the loop is deaf: settling its futures does nothing, and it keeps nothing of the body alive.

asyncio's combinators differ in detail between minor versions of Python (`wait_for` was rewritten in 3.12), so a turn that
is open should be replayed by the minor version that began it.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from contextvars import Context, copy_context
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVarTuple, Unpack

from torpor.errors import UsageError
from torpor.sdk.loop_closing import Closer, half_read
from torpor.sdk.loop_parts import (
    MICROSECONDS,
    PUT_IT_IN_A_STEP,
    FlowFuture,
    FlowTask,
    ReadyCall,
    T,
    Timer,
    TimerCall,
    new_future,
    new_task,
    place,
    told,
)
from torpor.sdk.loop_refusals import (
    NoOutsideWorld,
    check_asker,
    from_as_completed,
    refuse_as_completed,
    refuse_inside,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence

Ts = TypeVarTuple("Ts")

__all__ = ["FlowFuture", "FlowLoop", "FlowTask", "Timer"]

STEPS_PER_PUMP = 1_000_000
LATEST = 253_402_300_799 * MICROSECONDS  # the last second of the year 9999, where dates end
ONLY_CLEAN_UP = "a `finally` block runs each time the run is put away; let it clean up what is in memory, no more"
_ROUNDS = 3  # how often leftover tasks are asked to end
_COMPLAINTS_KEPT = 100
_FIRST_SWEEP = 64  # how many tasks or async generators are held before finished ones are let go

_get_running_loop = asyncio._get_running_loop  # noqa: SLF001 - asyncio's own API for loop authors
_set_running_loop = asyncio._set_running_loop  # noqa: SLF001 - asyncio's own API for loop authors


class FlowLoop(NoOutsideWorld):
    """A deterministic event loop for one turn of one flow. See the top of the file.

    Attributes:
        closing: True once the body is being closed or the turn is over; calls of a `Context` are refused then.
        complaints: what went wrong without anybody noticing (an exception in a task that nobody awaited).
        main: the flow's main task, from `start` until the loop is closed.
        ready: the calls that the next `pump` runs.
        timers_created: how many timers were opened in this turn so far.

    """

    closing = False
    main: FlowTask[Any] | None = None
    _ended = False
    _created = 0
    _steps = 0
    timers_created = 0
    _tasks_sweep = _generators_sweep = _FIRST_SWEEP

    def __init__(self, *, now: int) -> None:
        """Begin at the checkpoint's time, in microseconds UTC."""
        self.complaints: list[str] = []
        self._now = now
        self.ready: deque[ReadyCall | TimerCall] = deque()
        self._tasks: list[FlowTask[Any]] = []
        self._timers: dict[int, Timer] = {}
        self._generators: list[AsyncGenerator[Any, Any]] = []
        self._refused: list[BaseException] = []

    # ---- for the one who drives it

    def start(self, body: Coroutine[Any, Any, T]) -> FlowTask[T]:
        """Make the flow's main task, in its own copy of the current context. It runs with the next `pump`."""
        if self.main is not None:
            body.close()
            message = "this loop already has a main task"
            raise UsageError(message, hint="a flow loop lives for one turn; make a new one")
        task = self._new_task(body, None, None)
        self.main = task
        return task

    def pump(self, *, limit: int = STEPS_PER_PUMP) -> None:
        """Run ready calls until none is left.

        Raises:
            UsageError: more than `limit` calls ran without the body waiting for anything, or a task of another loop drives.
            KeyboardInterrupt, SystemExit: raised in the body. The loop is whole and can be closed.

        """
        ready = self.ready
        if not ready:
            return
        outer = _get_running_loop()
        if outer is not None and (task := asyncio.current_task(outer)) is not None:
            refuse_inside(task)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._hold_generator, _forget_generator)
        _set_running_loop(self)
        ran = 0
        try:
            while ready:
                if ran >= limit:
                    self._refuse_endless(limit)
                entry = ready.popleft()
                call = entry.call
                if call is None:
                    continue
                ran += 1
                try:
                    entry.context.run(call, *entry.arguments)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - a callback's error must not stop the others
                    self.call_exception_handler({"message": f"an error in the callback {call!r}", "exception": error})
        finally:
            self._steps += ran
            _set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)

    def advance(self, now: int) -> None:
        """Move loop time to a journaled moment, in microseconds UTC. It never goes backwards."""
        self._now = max(self._now, now)

    @property
    def now(self) -> int:
        """Loop time in microseconds UTC."""
        return self._now

    @property
    def steps(self) -> int:
        """How many calls were run so far."""
        return self._steps

    @property
    def timers(self) -> Sequence[Timer]:
        """The open timers, in order of creation. One that leaves this list tells why: `fired` or `cancelled`."""
        return tuple(self._timers.values())

    def fire(self, timer: Timer) -> None:
        """Make the callback of an open timer ready. Journal first, `advance` to its time, fire, `pump`."""
        if self._timers.pop(timer.number, None) is not timer:
            message = f"{timer!r} is not open"
            raise UsageError(message, hint="fire each timer of `timers` once")
        timer.fired = True
        self.ready.append(timer.entry)

    def future(self, *, stubborn: bool = False) -> FlowFuture[Any]:
        """Make a future for a call that is answered from outside. `stubborn`: `cancel()` does not settle it."""
        self._created += 1
        return new_future(self, self._created, stubborn=stubborn)

    def refuse(self, message: str, *, hint: str) -> UsageError:
        """Make the error by which a call is refused while `closing`; it is not reported if it only ends a `finally`."""
        error = UsageError(message, hint=hint)
        self._refused.append(error)
        return error

    def stuck(self) -> UsageError:
        """Explain a body that waits although nothing is open: for something that nobody will ever settle."""
        places = [f"{task.get_name()} at {place(task.get_coro())}" for task in self._tasks if not task.done()]
        message = f"the flow waits for something that nothing durable will ever settle: {'; '.join(places)}"
        return UsageError(message, hint=PUT_IT_IN_A_STEP)

    def cancel_leftovers(self) -> list[str]:
        """End the turn: cancel unfinished tasks in order of creation, a few times, then close what is left.

        The caller first waits for open effects. Returns what went wrong, as `close_body`.
        """
        self.closing = True
        for _ in range(_ROUNDS):
            leftovers = [task for task in self._tasks if not task.done()]
            if not leftovers:
                break
            for task in leftovers:
                task.cancel()
            try:
                self.pump()
            except UsageError as error:
                self.complaints.append(str(error))
                break
        return self.close_body()

    def close_body(self) -> list[str]:
        """Close the body: its `finally` blocks run with `closing` True, nothing is resumed. Never raises, bounded.

        Futures of calls that are still open end as cancelled, and their callbacks are not called.
        Returns everything that went wrong, what was in `complaints` first.
        """
        if self._ended:
            return []
        self._ended = self.closing = True
        self._timers.clear()  # the waits stay as they were: a `finally` that cancels a timer withdraws nothing now
        closer = Closer(self.ready, self._refused)
        if self._generators or not all(task.done() for task in self._tasks):
            self._close_rest(closer)
        closer.tell_unasked(self._tasks, self.main)
        self._tasks.clear()
        self._generators.clear()
        self._refused.clear()
        self.main = None  # it refers to the loop: no cycle stays behind
        self.ready = deque(maxlen=0)  # deaf from here on
        self.complaints.extend(closer.complaints)
        return self.complaints

    def time(self) -> float:
        """Loop time in seconds since the epoch."""
        return self._now / MICROSECONDS

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> ReadyCall:
        """Put a call at the end of the queue."""
        entry = ReadyCall(callback, args, copy_context() if context is None else context)
        self.ready.append(entry)
        return entry

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> ReadyCall:
        """Refuse calls from another thread: nobody would know on replay when they came."""
        if _get_running_loop() is not self:
            message = f"{callback!r} was sent to a flow loop from outside of its body, perhaps by another thread"
            raise UsageError(message, hint=PUT_IT_IN_A_STEP)
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> TimerCall:
        """Open a durable timer, `delay` seconds of loop time from now."""
        return self._open_timer(delay, self._now, callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> TimerCall:
        """Open a durable timer at a moment of loop time, in seconds."""
        return self._open_timer(when, 0, callback, args, context)

    def create_future(self) -> FlowFuture[Any]:
        """Make a future for asyncio's own primitives."""
        check_asker(sys._getframe(1), self)  # noqa: SLF001 - the only way to know who asks
        self._created += 1
        return new_future(self, self._created)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> FlowTask[T]:
        """Make a task; it runs when its turn in the queue comes."""
        asked = from_as_completed(sys._getframe(1))  # noqa: SLF001 - the only way to know who asks
        if asked is not None:
            refuse_as_completed(asked, coro)
        return self._new_task(coro, name, context)

    def get_task_factory(self) -> None:
        """Tasks are flow tasks, always; none is eager."""

    def get_debug(self) -> bool:
        """Never in debug mode: it would look at the clock."""
        return False

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001 - as asyncio
        """Change nothing, see `get_debug`."""

    def is_running(self) -> bool:
        """Whether this loop is being pumped in this thread."""
        return _get_running_loop() is self

    def is_closed(self) -> bool:
        """Whether the body was closed."""
        return self._ended

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what went wrong; nothing is printed. The count is bounded."""
        if len(self.complaints) < _COMPLAINTS_KEPT:
            self.complaints.append(told(context))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Do as `call_exception_handler`."""
        self.call_exception_handler(context)

    # ---- inside

    def _close_rest(self, closer: Closer) -> None:
        at_end = self.main is None or self.main.done()
        outer, hooks = _get_running_loop(), sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._hold_generator, _forget_generator)
        _set_running_loop(self)
        try:
            closer.close_tasks(self, self._tasks)
            closer.close_generators(self._generators, at_end=at_end)
        finally:
            _set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)

    def _new_task(
        self, body: Generator[Any, None, T] | Coroutine[Any, Any, T], name: str | None, context: Context | None
    ) -> FlowTask[T]:
        kind: type = type(body)
        if kind is not CoroutineType and not asyncio.iscoroutine(body):
            message = f"a coroutine was expected, got {body!r}"
            raise TypeError(message)
        if self._ended:
            body.close()
            message = "a task was started while the body was being closed"
            raise self.refuse(message, hint=ONLY_CLEAN_UP)
        self._created += 1
        task = new_task(self, self._created, body, name=name, context=copy_context() if context is None else context)
        if len(self._tasks) >= self._tasks_sweep:
            self._tasks = [held for held in self._tasks if not held.done()]
            self._tasks_sweep = max(_FIRST_SWEEP, 2 * len(self._tasks))
        self._tasks.append(task)
        return task

    def _open_timer(
        self,
        seconds: float,
        origin: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> TimerCall:
        if not math.isfinite(seconds) or (due_at := origin + round(seconds * MICROSECONDS)) > LATEST:
            message = f"a timer of {seconds} seconds is never due"
            raise UsageError(message, hint="leave the timeout out, or wait for an event")
        if self._ended:
            message = "a timer was started while the body was being closed"
            raise self.refuse(message, hint=ONLY_CLEAN_UP)
        entry = TimerCall(due_at, callback, args, copy_context() if context is None else context)
        if due_at <= self._now:
            self.ready.append(entry)
            return entry
        self.timers_created = number = self.timers_created + 1
        self._timers[number] = Timer(number, due_at, entry)
        entry.number = number
        entry.open_timers = self._timers
        return entry

    def _hold_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if len(self._generators) >= self._generators_sweep:
            self._generators = [held for held in self._generators if half_read(held)]
            self._generators_sweep = max(_FIRST_SWEEP, 2 * len(self._generators))
        self._generators.append(generator)

    def _refuse_endless(self, limit: int) -> NoReturn:
        places = [place(task.get_coro()) for task in self._tasks if not task.done()]
        message = f"the flow ran {limit} calls without waiting for anything: {'; '.join(places[:3])}"
        raise UsageError(
            message, hint="a loop over `asyncio.sleep(0)` never ends; wait for a timer, an event or a step"
        )


def _forget_generator(_generator: AsyncGenerator[Any, Any]) -> None:
    """Do nothing when the collector finds an async generator: the loop closed it, or said that it could not."""
