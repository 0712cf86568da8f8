"""A quiet worker, of which a snapshot may be taken: it claims nothing, begins no effect, and what acted is recorded.

`rouse.before_snapshot()`, called in any thread but the loop's, waits for that, at most `snapshot_seconds`, and then the worker
writes nothing either. A snapshot with an effect in it would be two effects, one in each copy; so if one still acts, the
error says so, nothing is to be saved, and the worker goes on. `rouse.after_restore()` runs all phases and opens.

One asks at a time: a second one, of a host that did not wait for its answer, begins when the first is over. Whoever opens
the gate meanwhile (`rouse.no_snapshot()`, `rouse.after_restore()`) has called it off: nobody is told that the worker is quiet
when it is not. Nor is anybody told so by a worker that was away meanwhile, for its gate must open before what acted can be
recorded, nor by one that is told to stop. Who is refused has no snapshot, so the gate is opened at once.

Steps may go on all the while: they are repeatable, and what a copy finds out is refused or accepted by its lease.

A worker that is told to stop when it is quiet begins nothing either, for the snapshot may be under way. If effects wait
behind the gate it waits for the host's word as a drain waits for effects, and then they act in the drain like any other.
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

    from torpor.worker.executor import Executor
    from torpor.worker.gate import Gate
    from torpor.worker.outside import Outside
    from torpor.worker.standing import Standing
    from torpor.worker.stopping import Stopping

KEPT = "effects waited for the end of a snapshot until the end of the drain"
SNAPSHOT_SECONDS = 30.0
"""How long a snapshot waits for effects that act."""
_LOOK_SECONDS = 0.01
_ANSWER_SECONDS = 5.0
"""A loop that is blocked for so long cannot say that it is quiet."""
_RESTORE_SECONDS = 1.0
"""So long a refused one waits for the worker to go on, so that the next does not shut its gate again before it did."""


class Resting(Protocol):
    """A worker, to who asks for a snapshot of it."""

    standing: Standing
    gate: Gate
    outside: Outside
    stopping: Stopping
    executors: dict[int, Executor]

    def wake(self) -> None:
        """Look for ready runs at once."""


def why_none(worker: Resting) -> str:
    """Return why no snapshot may be taken of a worker, or nothing: it is gone, or about to end."""
    if worker.standing.gone:
        return f"this worker is gone: {worker.standing.gone}"
    return "this worker ends" if worker.stopping.asked else ""


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
        self._asked = False

    def begin(self, registry: rouse.Registry) -> None:
        """Hear of snapshots: of the process's, if that is the registry."""
        self._registry = registry
        self._worker.standing.fences.append(registry.on_rousal(self._after, phase=rouse.Phase.OPEN_GATE))
        self._worker.standing.on_open = self._go_on
        if registry is rouse.process_registry:
            process_hooks.register_before_snapshot(self._before)
        if registry.is_closed_for(SNAPSHOT):
            self._worker.standing.close()  # somebody called while the worker started, and this did not hear of it

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

    @property
    def keeps(self) -> bool:
        """Whether somebody waits for an answer, or effects wait for the end of a snapshot: then a worker is not to end yet."""
        return self._asked or (self._worker.standing.pausing and self._worker.gate.waiting)

    async def _rest(self) -> None:
        standing = self._worker.standing
        self._asked = standing.pausing = True
        over_at = self._loop.time() + self._seconds
        try:
            await self._until(self._nothing_acts, over_at, recording=True)
            standing.close()  # from here on nothing is sent
            await self._until(lambda: not standing.sending, over_at)
        except BaseException as refused:
            self._registry.open_gate(SNAPSHOT)
            self._go_on()
            if isinstance(refused, Exception):
                await self._restored()
            raise
        finally:
            self._asked = False
        standing.log.warning("quiet", hint="a snapshot may be taken; rouse.after_restore() goes on")

    async def _restored(self) -> None:
        standing, over_at = self._worker.standing, self._loop.time() + _RESTORE_SECONDS
        if standing.ok():
            return
        going = asyncio.ensure_future(standing.restore())
        while not going.done() and self._loop.time() < over_at:
            if not standing.shut or SNAPSHOT in standing.shut:
                standing.try_now()  # its last look may have been a moment before the gate opened
            await asyncio.wait([going], timeout=_LOOK_SECONDS)

    async def _until(self, there: Callable[[], bool], over_at: float, *, recording: bool = False) -> None:
        """Wait for something. What is `recording` needs an open gate, if the worker was away meanwhile."""
        while True:
            why = why_none(self._worker)
            if not why and not self._registry.is_closed_for(SNAPSHOT):
                why = "it was called off: somebody opened the gate meanwhile"
            if not why and there():
                return
            if not why and recording and not self._worker.standing.ok():
                why = "the worker was away meanwhile, and checks its leases before it records what acted"
            if why:
                raise rouse.GateClosed(why, hint="take no snapshot now")
            if self._loop.time() >= over_at:
                what = f"after {self._seconds:g} s {self._under_way()}"
                raise TimeoutError(f"{what}: take no snapshot now, the worker goes on")
            await asyncio.sleep(_LOOK_SECONDS)

    def _under_way(self) -> str:
        acting = ", ".join(e.name for e in self._worker.executors.values() if e.progress.effects.acts)
        if acting:
            return f"effects of {acting} still act"
        sent = str(self._worker.standing.sending)
        return f"the store had not answered {sent}" if sent else "an effect was still under way"

    def _nothing_acts(self) -> bool:
        busy = self._worker.gate.busy or self._worker.outside.acting
        executors = self._worker.executors.values()
        return not busy and not any(e.progress.effects.acts or e.commits.owes for e in executors)

    def _after(self, _rousal: rouse.Rousal) -> None:
        """OPEN_GATE, in whichever thread: the standing need not wait to look whether the gate is open."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._worker.standing.try_now)

    def _go_on(self) -> None:
        if self._worker.standing.pausing:
            self._worker.standing.pausing = False
            self._worker.gate.ask_again()
            for executor in list(self._worker.executors.values()):
                if not executor.ended:
                    executor.commits.go_on()
            self._worker.wake()
