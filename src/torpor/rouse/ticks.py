"""Somebody who ticks: a thread for the process, or one for an event loop.

`watch()` starts a daemon thread; callbacks run in it. `async with watching():` has a thread that only looks: what it finds
closes the gate at once, and the callbacks run in the loop's own thread, so that no other coroutine acts between two phases.
Because the looks are not the loop's, a loop that blocks itself is not taken for frozen and is not woken at each tick. Both
open the detectors outside the process that work here and hand them to the registry, and look at once when one of them has
something to say.

A failing callback is logged; the ticking goes on, the gate stays closed, and every `check()` raises (`registry.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from .errors import RousalFailed
from .registry import process_registry
from .watcher import Uninterrupted, Watcher

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import AsyncIterator, Iterator

    from .detectors.clocks import Clocks, Detector, Limits
    from .event import Rousal
    from .incarnation import Incarnation
    from .registry import Registry

log = logging.getLogger(__name__)

REST_SECONDS = 0.05
"""After a look that a detector asked for: one that has something to say all the time costs at most twenty looks a second."""


@contextmanager
def outside(registry: Registry) -> Iterator[list[Detector]]:
    """Let every watcher of the registry ask the detectors outside the process; gives those that work here.

    One that an environment variable asks for and that does not work is warned of, unless another watch opened it already.
    """
    from .detectors.outside import asked_in_vain, close, name_of, open_outside

    opened, missing = open_outside()
    with registry.registering:
        there = {name_of(detector) for detector in registry.detectors}
        registry.detectors = (*registry.detectors, *opened)
    for line in asked_in_vain({name: why for name, why in missing.items() if name not in there}):
        log.warning("%s", line)
    try:
        yield opened
    finally:
        with registry.registering:
            registry.detectors = tuple(detector for detector in registry.detectors if detector not in opened)
        close(opened)


def look(watcher: Watcher, *, later: bool = False) -> Rousal | None:
    """Check, or with `later` only notice, and log what fails: whoever ticks must go on ticking."""
    try:
        return watcher.notice() if later else watcher.check()
    except RousalFailed as failed:
        if failed is not _logged.get("failed"):
            _logged["failed"] = failed
            log.exception("a rousal's phases were not finished; the gate stays closed")
    except Exception:
        log.exception("a look at the clocks failed; it is tried again at the next tick")
    return None


_logged: dict[str, RousalFailed] = {}


class Watch:
    """The thread. Made by `watch()` and `watching()`."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        clocks: Clocks | None = None,
        registry: Registry | None = None,
        tells: AbstractEventLoop | None = None,
    ) -> None:
        """Look with `limits` and tell `registry`, from the loop `tells` if there is one; nothing runs before `start()`."""
        self.watcher = Watcher(limits, clocks=clocks, registry=registry)
        self._tells = tells
        self._opened: list[Detector] = []
        self._outside: contextlib.ExitStack | None = None
        self._thread: threading.Thread | None = None
        self._waker = -1

    @property
    def ticks(self) -> bool:
        """Whether it was started and not stopped."""
        return self._outside is not None

    def start(self) -> None:
        """Open the detectors and begin to tick. Does nothing if it ticks."""
        if self._outside is None:
            self._outside = contextlib.ExitStack()
            self._opened = self._outside.enter_context(outside(self.watcher.registry))
            self._begin()

    def stop(self) -> None:
        """End the thread and close the detectors. Does nothing the second time."""
        if self._outside is None:
            return
        if self._thread is not None:
            os.write(self._waker, b"!")  # not only closed: a copy of the process may hold this end too
        os.close(self._waker)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._outside.close()
        self._outside = None

    def go_on_in_copy(self) -> None:
        """Begin again in a copy of the process, where the thread is not. It looks at once and finds the copy.

        One that tells a loop is over there: asyncio's loop does not go on in a copy, and what wakes it is the original's.
        """
        self._thread = None
        if self._outside is not None and self._tells is None:
            self._begin()

    def _begin(self) -> None:
        ended, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._loop, args=(ended,), name="rouse-watch", daemon=True)
        self._thread.start()

    def _loop(self, ended: int) -> None:
        tick_seconds, known, poll = self.watcher.limits.tick_seconds, list[int](), _poll([])
        try:
            while True:
                self._look()
                if (numbers := [ended, *descriptors(self._opened)]) != known:
                    known, poll = numbers, _poll(numbers)
                spoke = {number for number, _ in poll.poll(tick_seconds * 1000)}
                if ended in spoke:
                    return
                if spoke:
                    self._look()
                    if _poll([ended]).poll(min(REST_SECONDS, tick_seconds) * 1000):
                        return
        finally:
            os.close(ended)

    def _look(self) -> None:
        look(self.watcher, later=self._tells is not None)
        if self._tells is not None and self.watcher.registry.is_behind:  # whoever noticed it
            with contextlib.suppress(RuntimeError):  # the loop was closed: whoever asks the gate runs the callbacks
                self._tells.call_soon_threadsafe(look, self.watcher)


def descriptors(detectors: list[Detector]) -> list[int]:
    """Return the file descriptors that tell that a detector has something to say."""
    return [number for each in detectors if hasattr(each, "fileno") and (number := each.fileno()) >= 0]


def _poll(numbers: list[int]) -> select.poll:
    """Return what waits until one can be read or its other end is closed."""
    poll = select.poll()
    for number in numbers:
        poll.register(number, select.POLLIN)
    return poll


_the_watch: list[Watch] = []
_of_loops: list[Watch] = []
"""Those that `watching()` ticks with at this moment."""


def watch(limits: Limits | None = None) -> Watch:
    """Start the process's watch, or return the one that ticks. It ticks on in copies that fork makes. `stop()` ends it.

    One that was stopped is started again, or is replaced if other limits are asked for.

    Raises:
        ValueError: one ticks already, with other limits.
    """
    differs = bool(_the_watch) and limits is not None and limits != _the_watch[0].watcher.limits
    if differs and _the_watch[0].ticks:
        raise ValueError(f"a watch ticks already, with {_the_watch[0].watcher.limits}, not {limits}")
    if differs or not _the_watch:
        _the_watch[:] = [Watch(limits)]
    running = _the_watch[0]
    running.start()
    return running


def pass_gate() -> Incarnation:
    """Look now if a watch ticks, and return the incarnation in which the gate is open: the last check before an effect.

    Raises:
        RousalFailed: a callback failed, and nobody has mended it.
        GateClosed: closed for another reason: the phases are running, or a snapshot is being taken.
    """
    _look_if_it_ticks()
    return process_registry.pass_gate()


def uninterrupted() -> Uninterrupted:
    """`with rouse.uninterrupted():` raises Interrupted at the end of a block that was not; gives the incarnation.

    Looks at the clocks on the way in and out if a watch ticks, the process's or one of an event loop: then a freeze, a sleep
    or a word of the host counts even if the block ends right after it. Without one only copies of the process count, and
    what others found meanwhile.

    Raises (in the `with`):
        Interrupted: at the end, if it was interrupted.
        RousalFailed: on the way in or out, if a callback failed.
    """
    return Uninterrupted(_look_wherever_it_ticks)


def _look_if_it_ticks() -> Rousal | None:
    return _the_watch[0].watcher.check() if _the_watch and _the_watch[0].ticks else None


def _look_wherever_it_ticks() -> Rousal | None:
    rousals = [
        _look_if_it_ticks(),
        *[running.watcher.notice() for running in _of_loops],
    ]  # the loops' callbacks run in the loops
    return next((rousal for rousal in rousals if rousal is not None), None)


@asynccontextmanager
async def watching(
    limits: Limits | None = None, *, clocks: Clocks | None = None, registry: Registry | None = None
) -> AsyncIterator[Watcher]:
    """Watch for this event loop as long as the block lasts; callbacks run in the loop's thread. Gives the watcher.

    A loop that is blocked by its own code is no rousal. What is found meanwhile closes the gate; the callbacks run when the
    loop comes to them, or in whoever asks the gate before.
    """
    import asyncio

    running = Watch(limits, clocks=clocks, registry=registry, tells=asyncio.get_running_loop())
    running.start()
    _of_loops.append(running)
    try:
        yield running.watcher
    finally:
        _of_loops.remove(running)
        running.stop()
        look(running.watcher)  # what its thread found at the very end, and the loop was not told any more


def _go_on_in_copy() -> None:
    for running in [*_the_watch, *_of_loops]:
        running.go_on_in_copy()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_go_on_in_copy)
