"""Whether the worker's loop moves: seen from another thread, because a loop that is blocked cannot say so itself.

A flow that loops for ever, or an `async def` that does not await, stops every run of the worker while their leases live on,
so without a word nobody would know why nothing moves (G13). It is said once for each time it happens.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from torpor import clock
from torpor.worker.places import authors_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torpor.worker.roles import Executor

log = logging.getLogger("torpor.worker")

LOOK_SECONDS = 2.0
"""A loop that did not move for so long is blocked."""


class LoopWatch:
    """Watches the loop it is made on; `look` is called from another thread, about every `LOOK_SECONDS`."""

    def __init__(self, executors: Callable[[], Iterable[Executor]]) -> None:
        """Begin; `executors` are those whose calls may be what blocks it."""
        self._executors = executors
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._moved = threading.Event()
        self._asked_at = 0.0
        self._said = False
        self._ask()

    def _ask(self) -> None:
        self._moved.clear()
        self._asked_at = clock.monotonic()
        self._loop.call_soon_threadsafe(self._moved.set)

    def look(self) -> None:
        """Say that the loop is blocked, and where, or that it moves again."""
        seconds = clock.monotonic() - self._asked_at
        if self._moved.is_set():
            if self._said:
                log.warning("the worker's loop moves again, after less than %.0f s", seconds)
            self._said = False
            self._ask()
        elif not self._said:
            self._said = True
            log.error(
                "the worker's loop has not moved for %.0f s, so none of its runs goes on; it is %sat %s. "
                "Put blocking work in a step that is a plain def: it runs in a thread",
                seconds,
                self._call(),
                self._place(),
            )

    def _call(self) -> str:
        """Name the step or effect that has the loop, if it is one."""
        running = asyncio.current_task(self._loop)
        if running is not None:
            for executor in list(self._executors()):
                name = executor.progress.name_of(running)
                if name:
                    return f"in {name} of {executor.name}, "
        return ""

    def _place(self) -> str:
        stack = traceback.extract_stack(sys._current_frames().get(self._thread))  # noqa: SLF001 - the only way
        frame = authors_frame(stack)
        return f"{frame.filename}:{frame.lineno} in {frame.name}" if frame is not None else "a place nobody knows"
