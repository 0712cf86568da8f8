"""The watcher: looks at the clocks when it is told to, ends the life that was interrupted, tells who asked to know.

There is no thread here. The worker calls `check()` at each tick, and the gate calls it before an effect. Order inside a check:
read, compare, end the life (from here on every `incarnation()` differs), remember the reading, call back. If anything fails
before the reading is remembered, the same gap is found by the next check. If a callback fails, the callbacks after it do not
run (the last one may be the one that opens a gate) and every later check raises: it fails closed.

Callbacks run in the order in which they were registered, one rousal at a time, in the thread that called `check()`. They find
the incarnation changed already. The lock that orders them belongs to the process: a copy made while another thread held it
gets a new one.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from .detectors import Clocks, Limits, default_detectors
from .errors import Interrupted, RousalFailed
from .event import Finding, Kind, Rousal
from .incarnation import PerProcess, end, incarnation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from .detectors import Detector
    from .incarnation import Incarnation

    OnRousal = Callable[[Rousal], object]
    Callback = TypeVar("Callback", bound=OnRousal)


def _new_lock() -> AbstractContextManager[object]:
    return threading.RLock()  # a callback may call check(): nothing new is found then


class Watcher:
    """Finds out, when asked, whether this memory image was put away, frozen, moved or copied since it was last asked.

    The clock of the first tick starts when the watcher is made: make it where the ticking begins. One watcher per process is
    enough; a second one finds every gap again, which ends one life more than needed and misses nothing.
    """

    def __init__(
        self, limits: Limits | None = None, *, clocks: Clocks | None = None, detectors: Sequence[Detector] | None = None
    ) -> None:
        """`limits` default to `Limits()`, `clocks` to the machine's, `detectors` to `default_detectors(limits)`."""
        self.limits = limits or Limits()
        self._clocks = clocks or Clocks()
        self._detectors = tuple(default_detectors(self.limits) if detectors is None else detectors)
        self._lock = PerProcess(_new_lock)
        self._callbacks: list[OnRousal] = []
        self._failure: RousalFailed | None = None
        self._living = incarnation()
        self._reading = self._clocks.read()

    def on_rousal(self, callback: Callback) -> Callback:
        """Call `callback(rousal)` after each rousal, after those registered earlier. Also a decorator.

        A callback is short, waits for no other thread (that thread may be waiting in `check()`), and raises only if the
        process must not go on.
        """
        self._callbacks.append(callback)
        return callback

    def check(self) -> Rousal | None:
        """Look now. The rousal found by this call, after its callbacks ran, or None. From any thread; some 40 microseconds.

        Each rousal is returned by one call only; what must not miss one compares `incarnation()`, or is a callback.

        Raises:
            RousalFailed: a callback failed, now or earlier. The process is not sound: drop everything and stop.
        """
        with self._lock.get():
            if self._failure is not None:
                raise self._failure
            rousal = self._look()
            if rousal is not None:
                self._call_back(rousal)
            return rousal

    def uninterrupted(self) -> uninterrupted:
        """`with watcher.uninterrupted():` like `rouse.uninterrupted()`, and looks at the clocks on the way in and out."""
        return uninterrupted(self)

    def _look(self) -> Rousal | None:
        reading = self._clocks.read()
        findings = [finding for detect in self._detectors if (finding := detect(self._reading, reading)) is not None]
        before, now = self._living, incarnation()
        if now != before and not findings:
            # A copy that no reading shows (equal numbers in two pid namespaces), or somebody else ended the life.
            findings = [Finding(Kind.COPIED, "the incarnation changed, and no clock and no process number tells why")]
        if findings and (now == before or any(finding.kind is not Kind.COPIED for finding in findings)):
            now = end(now)  # a copy began its life by itself, but time away may have come after that
        self._living, self._reading = now, reading
        return _rousal(findings, before, now, reading.wall_at) if findings else None

    def _call_back(self, rousal: Rousal) -> None:
        for callback in tuple(self._callbacks):
            try:
                callback(rousal)
            except BaseException as error:
                name = getattr(callback, "__qualname__", repr(callback))
                self._failure = RousalFailed(
                    f"callback {name} failed after a rousal ({rousal.kind}, {rousal.away_seconds:.3f} s away): {error!r}",
                    hint="stop this process and start a new one: callbacks after this one did not run",
                )
                if isinstance(error, Exception):
                    raise self._failure from error
                raise


class uninterrupted:  # noqa: N801 - used as a verb: `with rouse.uninterrupted():`
    """A block that must live in one incarnation; gives that incarnation. Not in the clocks' sense unless a watcher looks.

    Raises:
        Interrupted: at the end of the block, if it was not. An exception of the block itself goes first.
    """

    def __init__(self, watcher: Watcher | None = None) -> None:
        """Without a watcher: copies, and whatever others found. With one: also what the clocks say at this moment."""
        self._watcher = watcher
        self._born_in: list[Incarnation] = []  # one for each block entered, so that one object may be nested

    def __enter__(self) -> Incarnation:
        """Remember the life the block begins in; what happened before it does not count."""
        if self._watcher is not None:
            self._watcher.check()
        self._born_in.append(incarnation())
        return self._born_in[-1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Compare; raise Interrupted if it is another one."""
        born_in = self._born_in.pop()
        if error is not None:
            return
        rousal = self._watcher.check() if self._watcher is not None else None
        now = incarnation()
        if now != born_in:
            why = f": {rousal.kind}, {'; '.join(rousal.evidence)}" if rousal is not None else ""
            raise Interrupted(
                f"the block began in incarnation {born_in} and ended in {now}{why}",
                born_in=born_in,
                now=now,
                hint="what the block did may have happened long ago or twice: check before using it",
            )


def _rousal(findings: list[Finding], before: Incarnation, after: Incarnation, noticed_at: int) -> Rousal:
    """One event for all findings of one check."""
    ordered = sorted(findings, key=lambda finding: finding.kind.gravity, reverse=True)
    return Rousal(
        kind=ordered[0].kind,
        away_seconds=sum(finding.away_seconds for finding in ordered),
        evidence=tuple(finding.evidence for finding in ordered),
        before=before,
        after=after,
        noticed_at=noticed_at,
    )
