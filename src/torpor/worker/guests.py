"""The guests of a turn (`sdk.guest`): run on the worker's loop, they ask in any order and are answered by key.

The journal decides the order of everything a body meets, and a body with a guest does nothing but wait for it. So from the
moment a guest is there the turn is *free*: a call that has its answer on record gets it at once, another one begins at once,
and what nobody asked for is looked at when the turn ends.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from torpor.sdk.loop import FlowLoop
    from torpor.sdk.port import Guest, Kept
    from torpor.worker.roles import Executor


class Guests:
    """Those of one turn."""

    def __init__(self, executor: Executor) -> None:
        """Begin with none."""
        self._executor = executor
        self._going: dict[asyncio.Task[Any], Guest] = {}
        self._called = False

    @property
    def busy(self) -> bool:
        """Whether one does something of its own, or has made a call that the body's loop has not taken yet."""
        return self._called or any(guest.busy for guest in self._going.values())

    def begin(self, body: FlowLoop, guest: Guest, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Start a guest; what it returns or raises settles a future of the body's loop."""
        future: asyncio.Future[Any] = body.future()
        going = asyncio.Task(work, loop=self._executor.worker.loop)
        self._going[going] = guest
        going.add_done_callback(partial(self._ended, future))
        return future

    def _ended(self, future: asyncio.Future[Any], going: asyncio.Task[Any]) -> None:
        self._going.pop(going, None)
        error = None if going.cancelled() else going.exception()
        if self._executor.ended or future.done():
            return
        if going.cancelled():
            future.cancel()
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(going.result())
        self._executor.go_on()

    def enter(self, body: FlowLoop, call: Callable[[], object]) -> None:
        """Call something on the body's loop, soon."""
        if self._executor.ended or body.closing:
            return
        body.call_soon(call)
        if not self._called:
            self._called = True
            self._executor.worker.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._called = False
        self._executor.go_on()

    def close(self) -> None:
        """Cancel those that are there: the turn is over, or the run is put away."""
        going, self._going = self._going, {}
        for one in going:
            one.cancel()


_LEAVING: set[asyncio.Future[Any]] = set()
"""What has been let go of and closes what it had opened."""
LEAVE_SECONDS = 10.0


def end(kept: Mapping[str, Kept]) -> None:
    """Let go of what guests keep from turn to turn: the run is put away, or lost."""
    for one in kept.values():
        leaving = one.end()
        if leaving is not None and not leaving.done():
            _LEAVING.add(leaving)
            leaving.add_done_callback(_LEAVING.discard)


async def left() -> None:
    """Return once everything that this loop's workers let go of is closed, or has taken too long."""
    here = asyncio.get_running_loop()
    leaving = [one for one in _LEAVING if one.get_loop() is here]
    if leaving:
        await asyncio.wait(leaving, timeout=LEAVE_SECONDS)
