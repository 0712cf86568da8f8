"""Killing a worker inside the test's own process, the way SIGKILL would: no cleanup, no goodbye, no next line.

A worker of a lab lives a `Life`. Everything it starts is marked with it by a context variable, which asyncio hands on to
every task and callback. When the life ends

* none of its coroutines runs on: each is asked for its next step and gives a future that nobody ever settles instead;
  no `except` and no `finally` of its code runs, not even when the test is over;
* the store answers it no more (`MortalStore`): a call that is under way may still happen, but nobody learns of it;
* its life lock falls, as the system lets go of a dead process's locks, and others can prove its death.

A plain function that runs in a thread cannot be stopped; it runs to its end and nobody takes its result.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import inspect
import sys
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from torpor.core.replay import shown
from torpor.engine import commit as commits
from torpor.engine import effects, leases, waits
from torpor.engine.sweeps import Swept
from torpor.errors import StoreUnavailable
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from torpor.core.commit import Proposal
    from torpor.store.protocol import LifeLock, Listener, Store

T = TypeVar("T")


class Place(StrEnum):
    """Where in its work a worker is killed."""

    UNDISTURBED = "not at all"
    BEFORE = "before a commit was sent"
    INSIDE = "inside a transaction, before its COMMIT"
    AFTER = "after a commit, before its answer came"
    ACTED = "after a step or effect acted, before its record"


_INSIDE = frozenset({effects.commit_with, effects.commit_inside})
"""Commits that do something of their own before they are durable."""
KILLS = (Place.BEFORE, Place.INSIDE, Place.AFTER, Place.ACTED)


class Plan:
    """A kill that is planned: at the `point`-th time that a worker comes to a place, of `times` workers in a row.

    `what` says what the last one was doing; it is empty while none was killed.
    """

    def __init__(self, place: Place, point: int, times: int = 1) -> None:
        """Count from 1."""
        self.place = place
        self.point = point
        self.passed = 0
        self.left = times
        self.what = ""

    def now(self, place: Place, what: str) -> bool:
        """Whether to kill here."""
        if place is not self.place or self.left == 0:
            return False
        self.passed += 1
        if self.passed < self.point:
            return False
        self.passed = 0
        self.left -= 1
        self.what = what
        return True


class Life:
    """One worker's life. Whoever is in `ended` is told once, from wherever it ends."""

    def __init__(self, ended: Callable[[], None]) -> None:
        """Begin."""
        self.over = False
        self.buried = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.locks: list[LifeLock] = []
        self.generators: WeakSet[AsyncGenerator[Any, Any]] = WeakSet()
        """Those begun. The loop does not know them: it would close those of the dead, which runs their code."""
        self.transactions: set[asyncio.Future[Any]] = set()
        """Those under way: the store will do them, whoever asked is dead or not."""
        self.ended: list[Callable[[], object]] = [ended]

    def now(self) -> None:
        """End it."""
        if not self.over:
            self.over = True
            for lock in self.locks:
                lock.release()
            for tell in self.ended:
                tell()

    def bury(self) -> None:
        """Let go of what is left of an ended life, without running any of it."""
        self.buried = True
        for task in list(self.tasks):
            task.cancel()

    async def close_generators(self) -> None:
        """Close what a life that was not killed left open, as asyncio.run does at its end."""
        await asyncio.gather(*(one.aclose() for one in self.generators), return_exceptions=True)


OWNER: ContextVar[Life | None] = ContextVar("torpor_testing_owner", default=None)


def _keep(body: object) -> None:
    """Keep a killed coroutine for good, beyond the end of the interpreter: to forget it would run its `finally` blocks."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(body))


def _forget(body: object) -> bool:
    """Close a coroutine that never began, and those it was to await: none has a `finally` to run. False: it is none such."""
    if not inspect.iscoroutine(body) or inspect.getcoroutinestate(body) != inspect.CORO_CREATED:
        return False
    held = [] if body.cr_frame is None else list(body.cr_frame.f_locals.values())
    body.close()
    for one in held:
        if not _forget(one):
            for inner in gc.get_referents(one):  # a task group's record of a task, for one, which holds its coroutine
                _forget(inner)
    return True


class _Mortal(Coroutine[Any, Any, T]):
    """A coroutine that stands still once its life is over."""

    __slots__ = ("_body", "_life")

    def __init__(self, body: Coroutine[Any, Any, T], life: Life) -> None:
        self._body = body
        self._life = life

    def send(self, value: Any) -> Any:
        return self._stand_still() if self._life.over else self._body.send(value)

    def throw(self, *error: Any) -> Any:
        return self._stand_still() if self._life.over else self._body.throw(*error)

    def close(self) -> None:
        if not self._life.over:
            self._body.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._body.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    def _stand_still(self) -> Any:
        if self._life.buried:
            if not _forget(self._body):
                _keep(self._body)
            raise asyncio.CancelledError
        never: Any = asyncio.get_running_loop().create_future()
        never._asyncio_future_blocking = True  # noqa: SLF001 - what `await` on a future does
        return never


def mortal_tasks(loop: asyncio.AbstractEventLoop, body: Any, **more: Any) -> asyncio.Task[Any]:
    """Make a task; a task factory for the loop of a lab."""
    context = more.get("context")
    life = OWNER.get() if context is None else context.get(OWNER)
    if life is None:
        return asyncio.Task(body, loop=loop, **more)
    made: asyncio.Task[Any] = asyncio.Task(_Mortal(body, life), loop=loop, **more)
    life.tasks.add(made)
    made.add_done_callback(life.tasks.discard)
    return made


def mind_generators() -> None:
    """Keep the generators of lives from the loop that runs now, which forgets this at its end (`asyncio.run`)."""
    hooks = sys.get_asyncgen_hooks()
    if getattr(hooks.firstiter, "func", None) is not _begun:
        sys.set_asyncgen_hooks(partial(_begun, hooks.firstiter), hooks.finalizer)


def _begun(tell: Callable[[AsyncGenerator[Any, Any]], object] | None, generator: AsyncGenerator[Any, Any]) -> None:
    life = OWNER.get()
    if life is not None:
        life.generators.add(generator)
    elif tell is not None:
        tell(generator)


class _Killed(BaseException):
    """Leaves a transaction as the death of its process would: rolled back."""


class MortalStore:
    """A store as one worker sees it. After the worker's end it answers nothing."""

    def __init__(self, store: Store, life: Life, plan: Plan) -> None:
        """Stand in front of a store."""
        self._store = store
        self._life = life
        self._under_way = 0
        self._answered = asyncio.Event()
        life.ended.append(self._answered.set)  # what is under way then has nobody any more who would say so
        self.plan = plan

    def __getattr__(self, name: str) -> Any:
        """Return what is the store's own."""
        return getattr(self._store, name)

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Run a transaction, unless the worker's end comes before, inside or after it."""
        if self._life.over:
            await self._never()
        if op not in {commits.commit, *_INSIDE, leases.claim, waits.deliver}:
            value = await self._sent(self._store.transact(op, *args, lane=lane, **more))
            return value if not self._life.over else await self._never()
        what = described(args[0]) if args else "a delivery"
        if op is not leases.claim and self.plan.now(Place.BEFORE, what):
            await self._die()
        if op in _INSIDE and self.plan.now(Place.INSIDE, what):
            await self._die_inside(op, args, lane, more)
        self._under_way += 1
        self._answered.clear()
        try:
            value = await self._sent(self._store.transact(op, *args, lane=lane, **more))
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._answered.set()
        if op is leases.claim:
            what = "a claim" if value[0] else ""  # type: ignore[index]
        elif op is waits.deliver and value == Swept():
            what = ""  # somebody else was first
        if what and not self._life.over and self.plan.now(Place.AFTER, what):
            await self._die()
        return value if not self._life.over else await self._never()

    async def quiet(self) -> bool:
        """Return once no claim and no commit is under way; whether one was.

        What it did can be seen in the store before its worker has the answer, and may be killed at that.
        """
        was = self._under_way > 0
        while self._under_way and not self._life.over:
            await self._answered.wait()
        return was

    def transact_then(
        self,
        done: Callable[[Any, BaseException | None], None],
        op: Callable[..., Any],
        /,
        *args: Any,
        lane: Lane = Lane.WORK,
        **more: Any,
    ) -> None:
        """Do the same, and call `done(value, error)` from a callback of the running loop: never, if the worker ended."""
        loop = asyncio.get_running_loop()

        def answered(going: asyncio.Task[Any]) -> None:
            if not going.cancelled() and not self._life.over:
                error = going.exception()
                done(None if error is not None else going.result(), error)

        self._going = loop.create_task(self.transact(op, *args, lane=lane, **more))
        self._going.add_done_callback(answered)

    async def _sent(self, transaction: Coroutine[Any, Any, T]) -> T:
        """Send a transaction that does not end with the worker: what was sent may happen after its sender's death."""
        context = copy_context()
        context.run(OWNER.set, None)
        going = asyncio.get_running_loop().create_task(transaction, context=context)
        self._life.transactions.add(going)
        going.add_done_callback(self._life.transactions.discard)
        return await asyncio.shield(going)

    async def _die_inside(
        self, op: Callable[..., Any], args: tuple[Any, ...], lane: Lane, more: dict[str, Any]
    ) -> None:
        def halfway(tx: Any, *args: Any, **more: Any) -> None:
            op(tx, *args, **more)
            raise _Killed

        try:
            await self._store.transact(halfway, *args, lane=lane, **more)
        except _Killed:
            await self._die()

    async def _die(self) -> None:
        self._life.now()
        await self._never()

    async def _never(self) -> Any:
        await asyncio.get_running_loop().create_future()

    def transact_now(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Do the same for a thread; a dead worker's thread finds the store unavailable."""
        if self._life.over:
            raise StoreUnavailable("this worker was killed")
        return self._store.transact_now(op, *args, lane=lane, **more)

    def listen(self, heard: Callable[[str], None], *, without: str = "") -> Listener:
        """Pass hints on while the worker lives."""
        return self._store.listen(lambda topic: None if self._life.over else heard(topic), without=without)

    def life_lock(self, name: str) -> LifeLock:
        """Take a life lock that falls with the life."""
        lock = self._store.life_lock(name)
        self._life.locks.append(lock)
        return lock


def described(subject: object) -> str:
    """Say what a commit is about, `intent charge#1`."""
    proposals: list[Proposal] = subject if isinstance(subject, list) else [subject]  # type: ignore[list-item]
    entries = [entry for one in proposals if hasattr(one, "entries") for entry in one.entries]
    words = [f"{entry.kind.word} {shown(entry.key)}" if entry.key else entry.kind.word for entry in entries]
    return ", ".join(words) or "a commit"
