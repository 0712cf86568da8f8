"""What was told already: two notices of one event are one event.

Several watchers look at the same clocks, and one event is noticed in several ways, some of them late: the kernel writes its
line, the host its file, a moment after the wake. Three rules, none of which swallows a second event:

- *Another watcher's rousal.* It ended the life this watcher knew, by the same clocks. So this one goes on from that rousal's
  reading: what lies before it was told, what lies after it is looked at.
- *The same notice.* The host calls each event by a name (a generation). A name that was told is no news, whoever brings it,
  unless as something graver. Two names are two events, however close and by whichever way they come.
- *A late confirmation.* A detector names those whose event it also reports (`confirms`). If one of them was part of the last
  rousal, at most `SETTLE_SECONDS` ago, and this detector was not, then this is its report of the same event. It has
  one report: the next one is news, and so is a notice where another one was part of the rousal. A finding graver than what
  was told is always news.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .detectors.clocks import Clocks, Reading
    from .event import Finding, Kind, Rousal
    from .incarnation import Incarnation

SETTLE_SECONDS = 5.0
REMEMBERED = 64


@dataclass(slots=True)
class Told:
    """A rousal that was told, and the reading up to which its watcher had looked."""

    rousal: Rousal
    reading: Reading
    by: set[str] = field(default_factory=set)
    named: bool = False
    """Whether somebody gave the event a name."""


class Heard:
    """The last rousals of a registry. Used under its lock."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._told: dict[tuple[Incarnation, Clocks], Told] = {}
        self._notices: dict[str, Kind] = {}

    def remember(self, rousal: Rousal, findings: list[Finding], reading: Reading, clocks: Clocks) -> None:
        """Keep what is told now."""
        by, named = {finding.by for finding in findings}, any(finding.notice for finding in findings)
        self._told[rousal.before, clocks] = Told(rousal, reading, by, named)
        for finding in findings:
            self._is_new(finding)
        while len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]
        while len(self._notices) > REMEMBERED:
            del self._notices[next(iter(self._notices))]

    def settle(self) -> None:
        """Take no report any more for a late one of what was told: from here on it is of another event."""
        for told in self._told.values():
            told.by.clear()

    def that_ended(self, life: Incarnation, clocks: Clocks) -> Told | None:
        """Return the telling of the rousal that ended this life, if one did by these clocks."""
        return self._told.get((life, clocks))

    def is_news(self, finding: Finding, now: Reading) -> bool:
        """Whether a finding, made by somebody outside, is an event that was not told."""
        if finding.notice and not self._is_new(finding):
            return False
        last = next(reversed(self._told.values()), None)
        if last is None or not last.by.intersection(finding.confirms) or finding.by in last.by:
            return True
        since = (now.monotonic_at - last.reading.monotonic_at) / 1e6
        if not 0 <= since <= SETTLE_SECONDS or finding.kind.gravity > last.rousal.kind.gravity:
            return True
        if finding.notice and last.named:
            return True
        last.by.add(finding.by)
        last.named = last.named or bool(finding.notice)
        return False

    def _is_new(self, finding: Finding) -> bool:
        """Keep a notice as the gravest that it was said to be; whether it was not known as that."""
        known = self._notices.get(finding.notice)
        if not finding.notice or (known is not None and finding.kind.gravity <= known.gravity):
            return False
        self._notices[finding.notice] = finding.kind
        return True
