"""A guest: code that runs on the worker's own loop beside a turn, and reaches the journal through the turn.

A flow's body lives on a loop of its own, where nothing but the journal decides what happens next. Somebody else's
framework cannot live there: it opens connections, starts threads, looks at the clock. So it runs outside, as a **guest** of
a body that does nothing but wait for it, and whatever must be done once it asks of the turn: `await guest.call(...)` runs a
coroutine function on the flow's loop, with everything a `Context` can do, and hands its result out.

What a guest may rely on, and what it must keep to:

* Its calls are known by names it chooses (`step_id`), never by their order: outside, order is chance. A call that the
  journal answers is answered at once; another one is begun at once.
* A guest that waits only for its own calls keeps nothing awake: if these are waits, the run is put away and the guest is
  cancelled where it stands. When the run wakes a new guest begins, and its calls are answered up to where the first one was.
* So whatever it does between its calls may be done again, and must do no harm twice.
* What a repeatable step gave back may reach it a moment before that is durable; nothing it then asks for is begun before.
* What the journal holds and no guest of the turn has asked for when the turn ends is a divergence, found before the turn's
  end is recorded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from torpor.clock import as_datetime
from torpor.core.effect import Safety
from torpor.core.replay import CallKind
from torpor.sdk.asking import Answer
from torpor.sdk.context import Context

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from torpor.sdk.calling import Wish
    from torpor.sdk.context import Log
    from torpor.sdk.port import Kept, Port
    from torpor.sdk.steps import Definition

T = TypeVar("T")


class GuestContext(Context):
    """What a guest's calls are made with: a `Context` that knows definitions made on the way."""

    __slots__ = ()

    def perform(
        self, definition: Definition, values: dict[str, Any], step_id: str, *, ahead: bool = False
    ) -> Coroutine[Any, Any, Any]:
        """Run a function under its definition as a step, or as an effect if it is not repeatable.

        An interrupt does not wait for it, whatever it is: who talks to a guest wants an answer now. `ahead`: the outcome of a
        step may be given to the guest before it is durable, if nothing else is open.
        """
        effect = definition.safety is not Safety.REPEATABLE
        kind = CallKind.EFFECT if effect else CallKind.STEP
        number = self._promise(kind.name.lower(), definition.name)
        wish: Wish = {"lets_go": True, "ahead": ahead and not effect}
        return self._call(number, kind, definition.name, values, definition, step_id, stubborn=effect, **wish)

    def reserve(self, micros: int, step_id: str, *, why: str = "") -> Coroutine[Any, Any, Any]:
        """Reserve micro-units of a dollar in every budget above this run, or wait for a person; return the `hold`'s record.

        What is never settled is spent when the turn ends. A person who is asked for more is told `why` if the amount says
        nothing. Raises BudgetExceeded if a person says no.
        """
        values = {"micros": micros, "lost": "spent", "why": why}
        return self._call(self._promise("budget.reserve", ""), CallKind.BUDGET, "reserve", values, step_id=step_id)

    async def say(self, step_id: str, part: object) -> None:
        """Put a part into the run's stream, known by a name. As `Context.emit`."""
        self._port.emit(part, step_id)

    async def choose(self, question: str, choices: list[str], step_id: str) -> Answer[str]:
        """Ask a person a question with choices, known by a name. As `Context.ask`."""
        number = self._promise("ask", question)
        values = {"title": question, "choices": choices}
        said = await self._call(number, CallKind.ASK, "ask", values, step_id=step_id)
        return Answer(**{**said, "at": as_datetime(said["at"])})


class Guest:
    """The way from outside into one turn."""

    def __init__(self, context: Context) -> None:
        """Belong to the turn of a context."""
        self._port: Port = context.port
        self._context = GuestContext(self._port)
        self._asked: set[asyncio.Future[Any]] = set()
        """What it waits for."""
        self._known: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._working: set[asyncio.Task[Any]] = set()
        """Its tasks that were given an answer, and have neither ended nor asked for more."""

    @property
    def busy(self) -> bool:
        """Whether it does something of its own: it waits for none of its calls, or has just been given an answer.

        A task that asks for the first time was begun by one that was given an answer, and which now waits for it.
        """
        return bool(self._working) or all(answer.done() for answer in self._asked)

    @property
    def kept(self) -> dict[str, Kept]:
        """What guests keep from turn to turn while the worker goes on with the run; it is ended when the run is put away."""
        return self._port.kept

    @property
    def run_id(self) -> str:
        """The run's public id."""
        return self._context.run_id

    @property
    def log(self) -> Log:
        """The author's log."""
        return self._context.log

    def struck(self, text: str) -> str:
        """Return a text without any secret that this worker resolved, to be shown (G15)."""
        return self._port.struck(text)

    def now(self) -> int:
        """Return the store's time as this worker knows it, in microseconds; not recorded."""
        return self._port.now()

    def has(self, kind: CallKind, name: str, step_id: str) -> bool:
        """Whether an earlier stretch of this turn recorded the answer to a call."""
        return self._port.has(kind, name, step_id)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine outside and return what it returns. Called once, from the body; raises what it raises."""
        result: T = await self._port.outside(self, work)
        return result

    async def call(self, make: Callable[[GuestContext], Coroutine[Any, Any, T]]) -> T:
        """Make calls from outside: run a coroutine function on the flow's loop, and return what it returns.

        If the guest stops waiting, what was made is withdrawn as if the flow had cancelled it.
        """
        import asyncio

        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        began: list[asyncio.Task[T]] = []
        asker = asyncio.current_task()
        if asker in self._known:
            self._working.discard(asker)
        elif asker is not None:
            self._known.add(asker)
            self._working.clear()
        self._asked.add(answer)
        self._port.enter(partial(self._begin, make, answer, began, asker))
        answer.add_done_callback(partial(self._over, began))
        return await answer

    def _begin(
        self,
        make: Callable[[GuestContext], Coroutine[Any, Any, T]],
        answer: asyncio.Future[T],
        began: list[asyncio.Task[T]],
        asker: asyncio.Task[Any] | None,
    ) -> None:
        """Begin, on the flow's loop."""
        if answer.done():
            return
        task = self._port.loop.create_task(make(self._context))
        began.append(task)
        task.add_done_callback(partial(self._answer, answer, asker))

    def _answer(self, answer: asyncio.Future[Any], asker: asyncio.Task[Any] | None, task: asyncio.Future[Any]) -> None:
        """Hand out what a call gave, to a future of the worker's loop, which this thread runs."""
        error = None if task.cancelled() else task.exception()
        if answer.done():
            return
        if asker is not None and not asker.done():
            self._working.add(asker)
            asker.add_done_callback(self._ended)
        if task.cancelled():
            answer.cancel()
        elif error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result())

    def _ended(self, asker: asyncio.Task[Any]) -> None:
        if asker in self._working:
            self._working.discard(asker)
            self._port.enter(_look_again)

    def _over(self, began: list[asyncio.Task[Any]], answer: asyncio.Future[Any]) -> None:
        """Wait for it no more; withdraw what was made if the guest stopped waiting."""
        self._asked.discard(answer)
        if answer.cancelled():
            self._port.enter(partial(_withdraw, began))


def _look_again() -> None:
    """Do nothing: whoever drives the turn sees what is next."""


def _withdraw(began: list[asyncio.Task[Any]]) -> None:
    for task in began:
        task.cancel()
