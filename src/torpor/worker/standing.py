"""Whether this process may still act as the worker it was: the same uninterrupted life, the life lock held, leases checked.

After a gap in its clocks, a freeze, or a copy, the worker fences itself: no effect and no commit before every lease was
checked again. The order is fixed: the phases of the rousal, told to the process's registry (`rouse.process_registry`), in
which the store's connections of another life are dropped; then the life lock is proven, every lease renewed, and only then
does the worker act. A process that is a copy (another pid) does no IO at all: its threads are not there, it is not the worker,
and what would be done at its end (connections closed, threads joined) is the original's business. So it ends on the spot.

**The loop only notices.** A look ends the life, and from then on nothing acts; the callbacks run in a thread, for which
`restore` waits. So one that does not return holds neither the loop nor its signals, and the process ends without it.

**Shut.** A callback that fails or does not return leaves the phases unfinished, a snapshot that is being taken closes the gate
too, and a look that raises tells nothing. Then the worker commits nothing, claims nothing, begins no effect, and says so. It
tries again, with pauses that grow, for `shut_seconds`, in which the time of the callbacks counts; then it is gone, with
the reason, and its runs go on elsewhere (G2, G13; docs/decisions/0014). Asked to stop it goes on trying only while it drains
and something would be lost (`stopping`).
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor import clock, rouse
from torpor.store.protocol import Lane
from torpor.worker.lines import logger
from torpor.worker.sending import Sending
from torpor.worker.stopping import Stopping
from torpor.worker.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from torpor.store.protocol import LifeLock, Store

SHUT_SECONDS = 60.0
"""How long a worker whose gate is shut tries to go on before it ends itself."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_POLL_SECONDS, _MOST_COUNTED = 0.1, 1.0
"""How often it is asked whether a callback has returned. What a poll took beyond the second number is no time of ours: the
process was frozen in it."""
_SLOW_SECONDS = 1.0
"""A callback that has not returned by then is named in the log, and one that was not over by then when nothing is waited
for any more is given up."""
_LOCK_SECONDS = 0.02
_NO_LIFE = ""
"""No incarnation is equal to it."""


class _Shut(NamedTuple):
    """Why the gate is shut."""

    why: str
    grave: bool = False
    """Whether something failed, and it is not merely closed for a while."""


class Standing:
    """One worker's right to act. `may_write()` is asked before every commit, `look()` before every effect."""

    def __init__(
        self,
        store: Store,
        life: LifeLock,
        limits: rouse.Limits,
        clocks: rouse.Clocks,
        registry: rouse.Registry = rouse.process_registry,
        shut_seconds: float = SHUT_SECONDS,
        stopping: Stopping | None = None,
        detectors: Sequence[rouse.Detector] | None = None,
    ) -> None:
        """Begin in the present incarnation, with the life lock just taken. `registry` is told of rousals found here.

        Once the worker is `stopping` a shut gate is waited for only as long as that says.
        """
        self._store = store
        self._life = life
        self._limits = limits
        self._clocks = clocks
        self._registry = registry
        self._shut_seconds = shut_seconds
        self._stopping = stopping or Stopping(0.0, lambda: False)
        self._stopping.on_asked = self.try_now
        self._watcher = rouse.Watcher(limits, clocks=clocks, detectors=detectors, registry=registry)
        self._looked_at = self._two_clocks()
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._checking: asyncio.Future[bool] | None = None
        self._now = asyncio.Event()
        self._thread = Threads(1, "torpor-rousal")  # not the loop's own: the process's end would wait for it
        self._incarnation: str = rouse.incarnation()
        self._reconnected_in, self._told_of = self._incarnation, self._incarnation
        self.fences: list[rouse.Registration[Any]] = [
            registry.on_rousal(self._roused, phase=rouse.Phase.CLOSE_GATE),
            registry.on_rousal(self._reconnect, phase=rouse.Phase.CONNECTIONS),
        ]
        """The worker's part in the phases; taken back by `leave`."""
        self.gone = ""
        """Why this worker must never act again, or empty."""
        self.shut = ""
        """Why it may not act for now, since somebody looked in vain, or empty."""
        self._said = ("", False)
        self.pausing = False
        """Whether a snapshot is about to be taken: nothing is claimed, no effect begins; what acted is still recorded."""
        self.sending = Sending()
        """What the worker has sent, each after it was asked whether it may, and has no answer of yet."""
        self.rousals = 0
        """How many it heard of."""
        self.recheck: Callable[[], Awaitable[None]] | None = None
        """Renews every lease and drops the lost ones; set by the worker."""
        self.on_open: Callable[[], None] = _nothing
        """Called once everything was checked again, and the worker acts."""
        self.on_copy: Callable[[str], None] = _nobody
        """Ends a process that is a copy, and is told why; set by the worker."""
        self.log: Any = logger("worker")
        """Where it is said loudly; set by the worker."""
        if not registry.is_open:
            self.close()

    @property
    def incarnation(self) -> str:
        """The life in which every lease was last checked."""
        return self._incarnation

    def ok(self) -> bool:
        """Whether nothing happened to this memory image since every lease was checked. Costs under a microsecond."""
        if not self.gone and rouse.incarnation() == self._incarnation:
            return True
        self.end_copy()
        return False

    def end_copy(self) -> None:
        """End this process if it is a copy of the worker's, made past the at-fork hooks (G2)."""
        if os.getpid() != self._pid:
            self.gone = f"this process is a copy of worker process {self._pid}"
            self.on_copy(self.gone)

    def close(self) -> None:
        """Let nothing be done before `restore`, which waits for the registry's gate."""
        self._incarnation = _NO_LIFE

    def try_now(self) -> None:
        """Look at a shut gate now, not after the pause."""
        self._now.set()

    def leave(self) -> None:
        """Hear of rousals no more: the worker ended. Does not wait for callbacks that run."""
        for fence in self.fences:
            fence.take_back()
        self._thread.shutdown()

    def look(self) -> bool:
        """Ask the detectors as well, not only what they found so far: what the gate does (G2).

        Runs no callback and waits for none. Never raises: after a look that failed nothing is done before `restore` has looked.
        """
        if not self.ok():
            return False
        self._looked_at = self._two_clocks()
        lock = self._watcher.registry.lock
        while not lock.acquire(timeout=_LOCK_SECONDS):
            if not self.ok():
                return False  # another thread found something, and tells of it: that may take its time
        try:
            self._watcher.notice()
        except rouse.RousalFailed:
            self.close()  # `restore` says why
        except Exception:
            self.close()
            self.log.exception("a look at the clocks failed", hint="nothing is done before one succeeds")
        finally:
            lock.release()
        return self.ok()

    def may_write(self) -> bool:
        """Whether a commit may be sent: `ok`, and after time away `look` first. Costs some two microseconds.

        A commit comes sooner after a wake than the next tick. The detectors are too slow to ask for each; two clocks tell
        whether this process was late or the machine slept, and that is when the detectors are asked.
        """
        monotonic_at, boottime_at = self._two_clocks()
        late = monotonic_at - self._looked_at[0]
        slept = boottime_at - self._looked_at[1] - late
        limits = self._limits
        if late < clock.micros(limits.tick_seconds + limits.freeze_seconds) and slept < clock.micros(
            limits.suspend_seconds
        ):
            return self.ok()
        return self.look()

    async def stands(self) -> bool:
        """Wait until a commit may be sent, at this moment. False: this worker is gone."""
        while not self.may_write():  # asked again: a snapshot may have shut the gate since everything was checked
            if not await self.restore():
                return False
        return True

    def _two_clocks(self) -> tuple[int, int]:
        """Return a clock that stands still while the machine sleeps, and one that does not."""
        boottime_at = self._clocks.boottime()
        return self._clocks.monotonic(), self._clocks.wall() if boottime_at is None else boottime_at

    # the worker's part in the phases: short, in whichever thread noticed

    def _roused(self, rousal: rouse.Rousal) -> None:
        """CLOSE_GATE. It is closed already, by the new incarnation; say what happened, once however often it is mended."""
        if rousal.after == self._told_of:
            return
        self._told_of = rousal.after
        self.rousals += 1
        away = f"{rousal.away_seconds:.3f}"
        self.log.warning("roused", kind=str(rousal.kind), away_seconds=away, evidence="; ".join(rousal.evidence))

    def _reconnect(self, _rousal: rouse.Rousal) -> None:
        """CONNECTIONS. The life lock has its own: it is proven, and never opened again."""
        for lane in Lane:
            self._store.recover(lane)
        self._reconnected_in = rouse.incarnation()

    # going on

    async def restore(self) -> bool:
        """Check everything again after an interruption. False: this worker is gone, with the reason in `gone`."""
        self.end_copy()
        if self.gone:
            return False
        if self._checking is None:
            self._checking = asyncio.ensure_future(self._restore())
            self._checking.add_done_callback(self._checked)
        return await asyncio.shield(self._checking)

    def _checked(self, _: object) -> None:
        self._checking = None

    async def _restore(self) -> bool:
        while not self.ok():
            now = rouse.incarnation()
            if not await self._open():
                return False
            if self._reconnected_in != now:
                for lane in Lane:
                    self._store.recover(lane)
            if not await self.prove():
                return False
            if self.recheck is not None:
                await self.recheck()
            if self._registry.is_open:
                self._looked_at = self._two_clocks()
                self._incarnation = now  # if it changed meanwhile the loop goes round again
        self.on_open()
        return True

    async def _open(self) -> bool:
        """Wait until the phases are done and the registry's gate is open. False: it stayed shut for too long."""
        waited, pause, mend = 0.0, min(_FIRST_PAUSE, self._shut_seconds), False
        while True:
            shut, waited = await self._tell(waited, mend=mend)
            if shut is None:
                if self.shut:
                    self.log.warning("open again", after_seconds=f"{waited:.1f}")
                self.shut, self._said = "", ("", False)
                return True
            self._say(shut)
            if waited >= self._shut_seconds or self._stopping.over:
                self.gone = f"its gate was shut for {waited:.1f} s: {shut.why}"
                return False
            self._now.clear()
            began = self._loop.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(pause, self._stopping.left)):
                    await self._now.wait()
            waited += min(self._loop.time() - began, pause)  # a snapshot that slept for an hour has its whole time yet
            pause, mend = min(pause * 2, _LONGEST_PAUSE, max(self._shut_seconds - waited, 0.001)), True

    def _say(self, shut: _Shut) -> None:
        """Say that it is shut, once for each reason, and once more when it is asked to stop."""
        if (said := (shut.why, self._stopping.asked)) == self._said:
            return
        self.shut, self._said = shut.why, said
        hint = f"nothing is done meanwhile; it is tried again, {self._until()}"
        (self.log.error if shut.grave else self.log.warning)("shut", why=shut.why, hint=hint)

    def _until(self) -> str:
        """Say how long it is tried again."""
        if self._stopping.over:
            return "but this worker is asked to stop, and ends"
        if self._stopping.asked:
            return f"but this worker is asked to stop, and ends in {self._stopping.left:.0f} s at the latest"
        return f"after {self._shut_seconds:g} s this worker ends"

    async def _tell(self, waited: float, *, mend: bool) -> tuple[_Shut | None, float]:
        """Run what was left of the phases, in a thread. Return why the gate is shut, if it is, and how long it was by now.

        Gives up a callback that does not return once the whole time or the drain is over, or soon after nothing is waited for.
        The time is counted in polls, each by the loop's clock: what a freeze or a sleep adds to one of them does not count.
        """
        telling = self._loop.run_in_executor(self._thread, partial(self._look_again, mend=mend))
        over, before = 0.0, waited
        while True:
            began = self._loop.time()
            await asyncio.wait([telling], timeout=_POLL_SECONDS)
            seconds = min(self._loop.time() - began, _MOST_COUNTED)
            waited += seconds
            if telling.done():
                return telling.result(), waited
            shut = _Shut(f"{self._registry.calling or 'the look at the clocks'} has not returned", grave=True)
            if waited - before >= _SLOW_SECONDS:
                self._say(shut)
            over += seconds if self._stopping.over else 0.0
            if waited >= self._shut_seconds or over >= _SLOW_SECONDS or self._stopping.left <= 0.0:
                telling.cancel()  # nobody can stop the thread, and nobody waits for it
                if waited - before < _SLOW_SECONDS and self.shut:  # what failed before is the better reason
                    shut = _Shut(self.shut, grave=True)
                return shut, waited

    def _look_again(self, *, mend: bool) -> _Shut | None:
        """Return why the gate is shut, or None. In a thread: an author's callbacks may take their time."""
        try:
            if mend:
                self._registry.mend()
            self._watcher.check()
            self._registry.pass_gate()
        except rouse.GateClosed as closed:
            return _Shut(closed.message, grave=isinstance(closed, rouse.RousalFailed))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the worker says it and does not act
            return _Shut(f"the look at the clocks failed: {error!r}", grave=True)
        return None

    async def prove(self) -> bool:
        """Prove the life lock by a round trip on its own connection. False: lost, stop as if fenced."""
        if not self.gone and not await asyncio.to_thread(self._life.held):
            self.gone = "the life lock is lost: another process may believe that this one is dead"
        return not self.gone


def _nothing() -> None:
    """Nobody waits for it."""


def _nobody(_why: str) -> None:
    """Nobody ends this process."""
