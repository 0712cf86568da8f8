"""Where a worker process dies, or is frozen, by its own hand: at a commit, or between an act and its record.

The kill is a SIGKILL, the freeze a SIGSTOP, that the process sends itself at exactly the planned point: what it was about to
do next it does not do, and nothing of it cleans up. The places are those of `torpor.testing`.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torpor import clock
from torpor.engine import commit as commits
from torpor.engine import leases, streams
from torpor.testing.mortal import Place, described
from torpor.worker.calls import Calls

if TYPE_CHECKING:
    import asyncio
    import contextvars
    from collections.abc import Callable

    from torpor.sdk.steps import Definition, EffectContext
    from torpor.store.protocol import Store
    from torpor.worker.threads import Threads

MODEL = "model"
STREAM = "a piece of text"


def say(**event: Any) -> None:
    """Tell whoever listens what happens: a line of JSON on standard output, written whole."""
    with suppress(OSError):
        os.write(1, (json.dumps({**event, "at": clock.monotonic()}) + "\n").encode())


@dataclass(slots=True)
class Death:
    """A planned end: at the `point`-th time, from 1, that the process comes to `place`; with `what`, doing just that."""

    place: Place = Place.UNDISTURBED
    point: int = 0
    what: str = ""
    freeze: bool = False
    who: str = ""
    _passed: int = field(default=0)

    def at(self, place: Place, what: str) -> None:
        """Come to a place, perhaps the last."""
        if place is not self.place or (self.what and what != self.what):
            return
        self._passed += 1
        if self._passed == self.point:
            say(event="frozen" if self.freeze else "killed", who=self.who, what=what)
            os.kill(os.getpid(), signal.SIGSTOP if self.freeze else signal.SIGKILL)


class Doomed:
    """A store as a worker sees it that is to die at a commit."""

    def __init__(self, store: Store, death: Death) -> None:
        """Stand in front of a store."""
        self._store = store
        self._death = death

    def __getattr__(self, name: str) -> Any:
        """Be the store for everything else."""
        return getattr(self._store, name)

    async def transact(self, op: Callable[..., Any], /, *args: Any, **more: Any) -> Any:
        """Run a transaction, unless the end comes before or after it."""
        what = committed(op, args)
        if what and op is not leases.claim:
            self._death.at(Place.BEFORE, what)
        value = await self._store.transact(op, *args, **more)
        if what and (op is not leases.claim or value[0]):
            self._death.at(Place.AFTER, what)
        return value

    def transact_then(
        self, done: Callable[[Any, BaseException | None], None], op: Callable[..., Any], /, *args: Any, **more: Any
    ) -> None:
        """Do the same, and call `done(value, error)` from a callback of the running loop."""
        what = committed(op, args)

        def answered(value: Any, error: BaseException | None) -> None:
            if what and error is None:
                self._death.at(Place.AFTER, what)
            done(value, error)

        if what:
            self._death.at(Place.BEFORE, what)
        self._store.transact_then(answered, op, *args, **more)


def committed(op: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return what a transaction commits, in words; nothing for one that is no commit point."""
    if op is leases.claim:
        return "a claim"
    if op is streams.append:
        return STREAM
    return described(args[0]) if op is commits.commit else ""


class DoomedCalls(Calls):
    """Runs steps and effects for a worker that is to die after one acted, before that is recorded."""

    def __init__(self, threads: Threads, death: Death) -> None:
        """Use a worker's threads."""
        super().__init__(threads)
        self._death = death

    def start(
        self,
        definition: Definition,
        values: dict[str, Any],
        context: EffectContext | None,
        done: Callable[[Any, BaseException | None], None],
        within: contextvars.Context | None = None,
    ) -> asyncio.Future[Any]:
        """Start a call; the end may come when it has acted."""

        def acted(result: Any, error: BaseException | None) -> None:
            if error is None:
                self._death.at(Place.ACTED, definition.name)
            done(result, error)

        return super().start(definition, values, context, acted, within)


def between(place: Place, what: str) -> bool:
    """Whether somebody who dies there has an answer of the model that is not recorded: it was paid, and is lost."""
    if what == STREAM or place is Place.ACTED:
        return what in {STREAM, MODEL}
    return place is Place.BEFORE and any(word.partition(" ")[2].startswith(MODEL) for word in what.split(", "))
