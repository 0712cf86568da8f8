"""The watcher: looks at the clocks when it is told to, ends the life that was interrupted, tells who asked to know.

There is no thread here (`ticks.py` has one). The worker calls `check()` at each tick, and the gate calls it before an
effect. Order inside a check: read, compare, end the life (from here on every `incarnation()` differs), remember the reading,
tell the registry, which runs the callbacks in phases. If anything fails before the reading is remembered, the same gap is
found by the next check. If a callback fails, the callbacks after it do not run (the last one may be the one that opens a
gate) and every later check of every watcher on that registry raises until it is mended: it fails closed.

Callbacks run one rousal at a time, in the thread that called `check()`. They find the incarnation changed already. Who must
not wait for them calls `notice()`, and leaves them to the next `check()` of another thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .detectors import Clocks, Limits, default_detectors
from .errors import Interrupted
from .event import Finding, Kind, Rousal
from .incarnation import end, incarnation
from .registry import process_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from .detectors import Detector, Reading
    from .incarnation import Incarnation
    from .registry import Registry


class Watcher:
    """Finds out, when asked, whether this memory image was put away, frozen, moved or copied since it was last asked.

    The clock of the first tick starts when the watcher is made: make it where the ticking begins. Several watchers on one
    registry do no harm: the first to notice tells, the others find that it was told.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        clocks: Clocks | None = None,
        detectors: Sequence[Detector] | None = None,
        registry: Registry | None = None,
    ) -> None:
        """`limits` default to `Limits()`, `clocks` to the machine's, `detectors` to `default_detectors(limits)`.

        `registry` is who is told: the process's unless given, so that `rouse.on_rousal` hears of whatever any watcher found.
        """
        self.limits = limits or Limits()
        self.registry = process_registry if registry is None else registry
        self._clocks = clocks or Clocks()
        self._detectors = tuple(default_detectors(self.limits) if detectors is None else detectors)
        self._living = incarnation()
        self._reading = self._clocks.read()
        self.on_rousal = self.registry.on_rousal
        """`registry.on_rousal`: callbacks belong to the registry, not to who notices."""

    def check(self) -> Rousal | None:
        """Look now. The rousal found by this call, after its callbacks ran, or None. From any thread; some 20 microseconds.

        Each rousal is returned once by each watcher; what must not miss one compares `incarnation()`, or is a callback.

        Raises:
            RousalFailed: a callback failed, now or earlier. The process is not sound: drop everything and stop, or mend.
        """
        with self.registry.lock:
            return self._look()

    def notice(self) -> Rousal | None:
        """Look as `check` does and end the life, but run no callback: the next `check` or `pass_gate` does, in its thread.

        The gate is closed until then. For an event loop, which must go on while callbacks take their time.

        Raises:
            RousalFailed: a callback failed earlier.
        """
        with self.registry.lock:
            return self._look(later=True)

    def uninterrupted(self) -> Uninterrupted:
        """`with watcher.uninterrupted():` like `rouse.uninterrupted()`, and looks by itself on the way in and out."""
        return Uninterrupted(self.check)

    def hear(self, finding: Finding) -> Rousal | None:
        """Take the word of one who knows it from outside, and look as well; like `check` otherwise.

        Raises:
            RousalFailed: as `check`.
        """
        with self.registry.lock:
            return self._look(finding)

    def _look(self, *findings: Finding, later: bool = False) -> Rousal | None:
        reading = self._clocks.read()
        told, since, living = self._told_by_others()
        found = [finding for finding in findings if self.registry.heard.is_news(finding, reading)]
        found += [finding for detect in self._detectors if (finding := detect(since, reading)) is not None]
        found += self.registry.look_outside(since, reading)
        now = incarnation()
        if now != living and not found:
            # A copy that no reading shows (equal numbers in two pid namespaces), or somebody else ended the life.
            found = [Finding(Kind.COPIED, "the incarnation changed, and no clock and no process number tells why")]
        if found and (now == living or any(finding.kind is not Kind.COPIED for finding in found)):
            now = end(now)  # a copy began its life by itself, but time away may have come after that
        self._living, self._reading = now, reading
        if not found:
            (self.registry.sound if later else self.registry.tell_untold)()
            return told
        rousal = _rousal(found, living, now, reading.wall_at)
        self.registry.heard.remember(rousal, found, reading, self._clocks)
        self.registry.found_told()
        self.registry.tell(rousal, later=later)
        return rousal

    def _told_by_others(self) -> tuple[Rousal | None, Reading, Incarnation]:
        """Return the last rousal told since this watcher looked, and from where on it has to look itself."""
        rousal, since, living = None, self._reading, self._living
        while (told := self.registry.heard.that_ended(living, self._clocks)) is not None:
            rousal, since, living = told.rousal, told.reading, told.rousal.after
        return rousal, since, living


class Uninterrupted:
    """A block that must live in one incarnation; gives that incarnation. Made by `uninterrupted()` of a watcher or of `rouse`.

    Raises:
        Interrupted: at the end of the block, if it was not. An exception of the block itself goes first.
        RousalFailed: on the way in or out, if a callback failed: `Watcher.check` raises it.
    """

    def __init__(self, look: Callable[[], Rousal | None]) -> None:
        """`look` is called on the way in and out: a block may end right after the wake, before anybody else looks."""
        self._look = look
        self._born_in: list[Incarnation] = []  # one for each block entered, so that one object may be nested

    def __enter__(self) -> Incarnation:
        """Remember the life the block begins in; what happened before it does not count."""
        self._look()
        self._born_in.append(incarnation())
        return self._born_in[-1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Compare; raise Interrupted if it is another one."""
        born_in = self._born_in.pop()
        if error is not None:
            return
        rousal = self._look()
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
        certain=ordered[0].certain,
    )
