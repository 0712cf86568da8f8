"""The event of having slept, been frozen, been copied: what kind, for how long, how we know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .incarnation import Incarnation


class Kind(StrEnum):
    """What happened, gravest first. When several are found at once the gravest names the event.

    When in doubt a reader treats any of them as `copied` for randomness and connections, and as `slept` for schedules.
    """

    COPIED = "copied"
    """There may be another one of us: it holds the same tokens, connections and random state."""
    ROLLED_BACK = "rolled_back"
    """We were set back to an earlier state of ourselves; the world remembers more than we do."""
    MOVED = "moved"
    """We go on under another kernel."""
    RESTARTED = "restarted"
    """The machine was started again around what we had kept."""
    SLEPT = "slept"
    """The machine was suspended."""
    FROZEN = "frozen"
    """The process (or its whole machine) did not run while the clocks did: SIGSTOP, a cgroup freezer, a pause."""
    CLOCK_STEP = "clock_step"
    """The wall clock was set; forward may also be a pause that no other clock has seen."""

    @property
    def gravity(self) -> int:
        """Greater is graver."""
        return -list(Kind).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one detector saw between two readings."""

    kind: Kind
    evidence: str
    """The values compared and the limit, in one sentence."""
    away_seconds: float = 0.0
    """Time this finding alone accounts for. Findings of one check account for different time, so they add up."""
    certain: bool = False
    """Whether somebody outside said so: then it is nothing else as well."""
    by: str = ""
    """The detector's name."""
    confirms: tuple[str, ...] = ()
    """The detectors of whose event this may be a late report."""
    notice: str = ""
    """What the one who tells calls the event, for example the host's generation. The same notice twice is one event."""


@dataclass(frozen=True, slots=True)
class Rousal:
    """This memory image was not the uninterrupted one. One event per check, however many detectors found something."""

    kind: Kind
    away_seconds: float
    """Estimate of the time away. 0.0 where nothing tells."""
    evidence: tuple[str, ...]
    """What each detector saw, gravest first."""
    before: Incarnation
    after: Incarnation
    noticed_at: int
    """Microseconds UTC since the epoch, by the wall clock after the event."""
    certain: bool = False
    """Whether somebody outside said what it was. If not, take it for `copied` in all that concerns randomness and
    connections, and for `slept` in all that concerns schedules."""
