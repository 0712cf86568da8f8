"""A quiet worker, of which a snapshot may be taken: it claims nothing, begins no effect, and what acted is recorded.

`rouse.before_snapshot()`, called in any thread but the loop's, waits for that, at most `snapshot_seconds`, and then the worker
writes nothing either. A snapshot with an effect in it would be two effects, one in each copy; so if one still acts, the
error says so, nothing is to be saved, and the worker goes on. `rouse.after_restore()` runs all phases and opens.

One asks at a time: a second one, of a host that did not wait for its answer, begins when the first is over. Whoever opens
the gate meanwhile (`rouse.no_snapshot()`, `rouse.after_restore()`) has called it off: nobody is told that the worker is quiet
when it is not.

Steps may go on all the while: they are repeatable, and what a copy finds out is refused or accepted by its lease.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from torpor import rouse
from torpor.rouse.snapshot import SNAPSHOT, process_hooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.worker.committer import Committer
    from torpor.worker.executor import Executor
    from torpor.worker.gate import Gate
    from torpor.worker.outside import Outside
    from torpor.worker.standing import Standing

SNAPSHOT_SECONDS = 30.0
"""How long a snapshot waits for effects that act."""
_LOOK_SECONDS = 0.01
_ANSWER_SECONDS = 5.0
"""A loop that is blocked for so long cannot say that it is quiet."""


class Resting(Protocol):
    """A worker, to who asks for a snapshot of it."""

    standing: Standing
    gate: Gate
    committer: Committer
    outside: Outside
    executors: dict[int, Executor]

    def wake(self) -> None:
        """Look for ready runs at once."""


class Quiet:
    """One worker's part in a snapshot. Made on its loop."""

    def __init__(self, worker: Resting, seconds: float) -> None:
        """Nothing is registered before `begin`. A snapshot waits for at most so many `seconds`."""
        self._worker = worker
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._one = threading.Lock()
        self._registry = rouse.process_registry

    def begin(self, registry: rouse.Registry) -> None:
        """Hear of snapshots: of the process's, if that is the registry."""
        self._registry = registry
        self._worker.standing.fences.append(registry.on_rousal(self._after, phase=rouse.Phase.OPEN_GATE))
        self._worker.standing.on_open = self._go_on
        if registry is rouse.process_registry:
            process_hooks.register_before_snapshot(self._before)

    def end(self) -> None:
        """Hear of them no more."""
        process_hooks.take_back(self._before)

    def _before(self) -> None:
        """Wait until the worker is quiet. Raises TimeoutError if it is not so in time, GateClosed if it was called off."""
        if threading.get_ident() == self._thread:
            message = "before_snapshot() was called in the worker's own loop, which must go on meanwhile"
            raise RuntimeError(f"{message}; await asyncio.to_thread(rouse.before_snapshot)")
        with self._one:
            resting = asyncio.run_coroutine_threadsafe(self._rest(), self._loop)
            try:
                resting.result(self._seconds + _ANSWER_SECONDS)
            finally:
                resting.cancel()  # nothing, unless it was waited for in vain: then the worker goes on

    async def _rest(self) -> None:
        try:
            self._worker.standing.pausing = True
            over_at = self._loop.time() + self._seconds
            await self._until(self._nothing_acts, over_at)
            self._worker.standing.close()  # from here on no commit is sent
            await self._until(lambda: not self._worker.committer.sent, over_at)
        except BaseException:
            self._go_on()
            raise
        self._worker.standing.log.warning("quiet", hint="a snapshot may be taken; rouse.after_restore() goes on")

    async def _until(self, there: Callable[[], bool], over_at: float) -> None:
        while True:
            if not self._registry.is_closed_for(SNAPSHOT):
                raise rouse.GateClosed(
                    "it was called off: somebody opened the gate meanwhile", hint="take no snapshot now"
                )
            if there():
                return
            if self._loop.time() >= over_at:
                acting = ", ".join(e.name for e in self._worker.executors.values() if e.progress.effects.past_gate)
                what = f"effects of {acting} still act" if acting else "a commit or an effect was still under way"
                raise TimeoutError(f"after {self._seconds:g} s {what}: take no snapshot now, the worker goes on")
            await asyncio.sleep(_LOOK_SECONDS)

    def _nothing_acts(self) -> bool:
        busy = self._worker.gate.busy or self._worker.outside.acting
        return not busy and not any(e.progress.effects.past_gate for e in self._worker.executors.values())

    def _after(self, _rousal: rouse.Rousal) -> None:
        """OPEN_GATE, in whichever thread: the standing need not wait to look whether the gate is open."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._worker.standing.try_now)

    def _go_on(self) -> None:
        if self._worker.standing.pausing:
            self._worker.standing.pausing = False
            self._worker.gate.ask_again()
            self._worker.wake()
