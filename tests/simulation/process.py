"""A process of the simulation: a loop whose steps are taken one at a time, its clocks, its random bits, what it asked for.

Everything that happens is an event of one schedule, ordered by its time: a turn of a process's loop, a timer, a transaction
that reaches the store, its answer, a fault. No thread runs, nothing waits: while a process has something to do it takes a
turn, otherwise time jumps to the next event. So one seed gives one history.

A process may have a *shadow*: a second process that is given everything the first one is given, in the same order, and whose
own requests go nowhere, for it gets the answers of the first one's. So it is in the same state, byte for byte but for
addresses; at any moment `part` turns it into what a copy of a running machine is: the same worker, twice.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from torpor.errors import StoreUnavailable

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.simulation.schedule import Schedule

SECOND = 1_000_000
START_AT = 1_893_456_000 * SECOND
"""The first of January 2030."""
TURN = 20
"""How long a turn of a loop takes, in microseconds."""


def settled(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    """Settle a future, unless nobody waits for it any more."""
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


async def pause(seconds: float) -> None:
    """Let time of the world pass, by the clock of the process that asks."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_later(seconds, settled, over, None, None)
    await over


class Asked:
    """Something a process asked for and waits to hear of: a transaction, or a call that would run in a thread."""

    __slots__ = ("answer", "call", "over")

    def __init__(
        self, answer: Callable[[Any, BaseException | None], None], call: Callable[[], Any] | None = None
    ) -> None:
        """`answer` takes it; `call` is what the process itself has to do for it, if anything."""
        self.answer = answer
        self.call = call
        self.over = False


class Around(Protocol):
    """What a process needs of the machines it is among."""

    schedule: Schedule

    def chance(self, what: str) -> random.Random:
        """Return the chance of one thing."""

    def within(self, process: Process) -> AbstractContextManager[None]:
        """Take a turn as a process."""


_Loop: Any = asyncio.AbstractEventLoop  # of which only what torpor and asyncio's own parts ask for is here


class Process(_Loop):  # type: ignore[misc]
    """A process: a loop, its clocks, its random bits. It is its own event loop."""

    def __init__(self, machines: Around, name: str, kind: str, seed: str) -> None:
        """Begin. `kind` is worker, waker or people."""
        self.machines, self.name, self.kind = machines, name, kind
        self.rng = random.Random(seed)  # noqa: S311 - a simulation's chance
        self.dead = self.frozen = False
        self.life = 0
        """Which life this memory image is in."""
        self.paused, self.stepped, self.skew = 0, 0, 0.0
        """How long its monotonic clock stood still; what its wall clock was set by; how fast its clocks run."""
        self.shadow: Process | None = None
        self.follows: Process | None = None
        self.complaints: list[str] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._asked: dict[int, Asked] = {}
        self._told: deque[Any] = deque()
        self._numbers = [0, 0]
        self._scheduled = False
        self._held: list[Callable[[], object]] = []
        self._factory: Any = None

    # a loop, as asyncio wants it

    def time(self) -> float:
        """Return its monotonic clock."""
        return self.monotonic() / SECOND

    def monotonic(self) -> int:
        """Return its monotonic clock in microseconds."""
        passed = self.machines.schedule.now - self.paused
        return SECOND + passed + int(passed * self.skew)

    def wall(self) -> int:
        """Return its wall clock in microseconds."""
        return START_AT + self.machines.schedule.now + self.stepped

    def boottime(self) -> int:
        """Return the clock that goes on while it is suspended."""
        return self.monotonic() + self.paused

    def get_debug(self) -> bool:
        """Say that nothing is debugged."""
        return False

    def is_running(self) -> bool:
        """Whether it runs."""
        return not self.dead

    def is_closed(self) -> bool:
        """Whether it is over."""
        return self.dead

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future."""
        return asyncio.Future(loop=self)

    def create_task(self, body: Any, **more: Any) -> asyncio.Task[Any]:
        """Make a task."""
        task: asyncio.Task[Any] = asyncio.Task(body, loop=self, **more)
        task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - a killed process leaves them behind
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def get_task_factory(self) -> Any:
        """Say that tasks are made here: they must be known."""
        return self.create_task

    def call_soon(self, callback: Any, *args: Any, context: contextvars.Context | None = None) -> asyncio.Handle:
        """Call something in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._poke()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        """Call something after so many seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        """Call something at a moment of its monotonic clock."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbers[0] += 1
        number = self._numbers[0]
        self._timers[number] = timer
        if self.follows is None:
            self._wind(number, timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: its event finds out."""

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        """Call something that blocks, a moment later, in no thread at all."""
        del executor
        future = self.create_future()

        number = self.ask(Asked(partial(settled, future), partial(func, *args)))
        if self.follows is None:
            self.machines.schedule.after(TURN + self.rng_of_world.randrange(200), partial(self.perform, number))
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what went wrong without anybody hearing of it."""
        if not self.dead and self.follows is None and "exception" in context:
            self.complaints.append(f"{context.get('message')}: {context['exception']!r}")

    # turns

    @property
    def rng_of_world(self) -> random.Random:
        """What chance has in store for this process; not what it draws itself."""
        return self.machines.chance(self.name)

    @property
    def alive(self) -> bool:
        """Whether it goes on by itself: not dead, and nobody's shadow."""
        return not self.dead and self.follows is None

    def _poke(self) -> None:
        if self._ready and not (self._scheduled or self.dead or self.frozen) and self.follows is None:
            self._scheduled = True
            self.machines.schedule.after(TURN, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self.dead or self.frozen:
            return
        for process in self.both():
            process.run_ready()
        self._poke()

    def both(self) -> tuple[Process, ...]:
        """Return this process, and its shadow if it has one."""
        return (self,) if self.shadow is None else (self, self.shadow)

    def run_ready(self) -> None:
        """Run what was ready when the turn began."""
        with self.machines.within(self):
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()  # noqa: SLF001 - what a loop does

    def enter(self, call: Callable[[], Any]) -> Any:
        """Call something as this process, at once: what a thread of its would do."""
        with self.machines.within(self):
            return call()

    def when_awake(self, call: Callable[[], object]) -> None:
        """Do something now, or when the process was thawed; never, once it is dead."""
        if self.frozen:
            self._held.append(call)
        elif not self.dead:
            call()

    def _wind(self, number: int, timer: asyncio.TimerHandle) -> None:
        """See to it that a timer rings by this process's own clock."""
        away = timer.when() * SECOND - self.monotonic()
        self.machines.schedule.after(int(away / (1 + self.skew)) + 1, partial(self._ring, number))

    def _ring(self, number: int) -> None:
        timer = self._timers.get(number)
        if timer is None or self.dead:
            return
        if timer.cancelled():
            for process in self.both():
                process._timers.pop(number, None)  # noqa: SLF001 - its shadow's
        elif self.frozen:
            self._held.append(partial(self._ring, number))
        elif self.monotonic() < timer.when() * SECOND:
            self._wind(number, timer)  # its clock stood still meanwhile
        else:
            if self.shadow is not None and number not in self.shadow._timers:  # noqa: SLF001 - its shadow's
                self.shadow.dead, self.shadow = True, None  # it is out of step, and no copy any more
            for process in self.both():
                process._ready.append(process._timers.pop(number))  # noqa: SLF001 - its shadow's
            self._poke()

    # asking

    def ask(self, asked: Asked) -> int:
        """Take note of something asked for; return its number."""
        self._numbers[1] += 1
        self._asked[self._numbers[1]] = asked
        return self._numbers[1]

    def tell(self, number: int, value: Any, error: BaseException | None = None) -> None:
        """Give the answer to this process and to its shadow: it is read in their next turn."""
        if self.dead:
            return
        for process in self.both():
            asked = process._asked.pop(number, None)  # noqa: SLF001 - its shadow's
            if asked is not None:
                given = value if process is self else copy.deepcopy(value)
                process._ready.append(asyncio.Handle(asked.answer, (given, error), process, None))  # noqa: SLF001 - the same
        self._poke()

    def perform(self, number: int) -> None:
        """Do what blocks."""
        if self.dead:
            return
        if self.frozen:
            self._held.append(partial(self.perform, number))
            return
        for process in self.both():
            asked = process._asked.pop(number, None)  # noqa: SLF001 - its shadow's
            if asked is None or asked.call is None:
                continue
            value, error = None, None
            try:
                value = process.enter(asked.call)
            except BaseException as raised:  # noqa: BLE001 - it belongs to whoever asked
                error = raised
            process._ready.append(asyncio.Handle(asked.answer, (value, error), process, None))  # noqa: SLF001 - the same
        self._poke()

    def at_once(self, call: Callable[[], Any]) -> Any:
        """Return what a blocking call gives; a shadow is told what the other one was."""
        if self.follows is not None:
            value, error = self.follows._told.popleft()  # noqa: SLF001 - what it was told
            if error is not None:
                raise error
            return copy.deepcopy(value)
        try:
            value = call()
        except Exception as error:
            if self.shadow is not None:
                self._told.append((None, error))
            raise
        if self.shadow is not None:
            self._told.append((value, None))
        return value

    # faults

    def freeze(self) -> None:
        """Stop it where it is."""
        self.frozen = True

    def thaw(self, *, clock_stood_still: int = 0) -> None:
        """Let it go on; a machine that was suspended has a monotonic clock that stood still."""
        self.frozen = False
        for process in self.both():
            process.paused += clock_stood_still
        held, self._held = self._held, []
        for call in held:
            call()
        self._poke()

    def kill(self) -> None:
        """End it: none of its lines runs on."""
        self.dead = True
        if self.shadow is not None:
            self.shadow.dead = True

    def part(self) -> Process:
        """Let its shadow go on by itself, in the same state; every connection it had is broken. Return it."""
        other = self.shadow
        assert other is not None
        self.shadow = other.follows = None
        self._told.clear()
        other.paused, other.stepped, other.skew, other.frozen = self.paused, self.stepped, self.skew, self.frozen
        other.go_on_alone()
        return other

    def go_on_alone(self) -> None:
        """Begin to be a process of its own: wind the timers, and hear that what was asked is lost."""
        for number, timer in sorted(self._timers.items()):
            self._wind(number, timer)
        for number, asked in sorted(self._asked.items()):
            if asked.call is not None:
                self.machines.schedule.after(TURN, partial(self.perform, number))
            else:
                lost = StoreUnavailable("the connection is another machine's")
                lost.answer_lost = True
                self.machines.schedule.after(SECOND // 100, partial(self.tell, number, None, lost))
        self._poke()

    def bury(self) -> None:
        """Let go of what is left of it, whatever its code says to that."""
        self.dead = True
        while self.tasks:  # what is closed may begin something new
            body: Any = self.tasks.pop().get_coro()
            try:
                body.close()
            except BaseException:  # noqa: BLE001, S112 - the dead have no say
                continue
        self._ready.clear()
        self._timers.clear()
        self._asked.clear()
        self._held.clear()
