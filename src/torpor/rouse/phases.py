"""The order in which a memory image is made sound again after a rousal. It is fixed: each phase relies on those before it."""

from __future__ import annotations

from enum import IntEnum

from .event import Kind


class Phase(IntEnum):
    """What is done when. A callback that fails keeps all later phases from running: the gate stays closed."""

    CLOSE_GATE = 1
    """Nothing that changes the world begins from here on."""
    RESEED = 2
    """Random generators: whatever is drawn later must not be what a copy draws too."""
    TIME = 3
    """Deadlines, cached moments, what was computed from a clock."""
    CONNECTIONS = 4
    """Drop what was opened in another life. Never say goodbye on it: a copy may still talk there."""
    AUTHORITY = 5
    """Tokens and leases: may we still act, and are we the copy that may?"""
    SCHEDULES = 6
    """What fell due while we were away."""
    OPEN_GATE = 7
    """Go on."""

    @property
    def in_doubt(self) -> Kind:
        """What any event is also taken for here, unless somebody outside said that it was less (`takes_for`).

        A pause looks the same from the inside whether or not a copy was made in it. To reseed once too often is cheap, to
        draw the same number twice is not; to look for missed slots once too often is cheap, to skip one is not.
        """
        return Kind.SLEPT if self in {Phase.TIME, Phase.SCHEDULES} else Kind.COPIED

    def takes_for(self, kind: Kind, *, certain: bool) -> frozenset[Kind]:
        """Return what an event of `kind` counts as in this phase: itself, and what it may have been or includes.

        What is graver than a pause includes both a copy's faults and time away. Where it is `certain`, a pause is no copy,
        and a step of the clock no sleep.
        """
        less = {Kind.CLOCK_STEP} if self.in_doubt is Kind.SLEPT else {Kind.CLOCK_STEP, Kind.FROZEN, Kind.SLEPT}
        return frozenset({kind} if certain and kind in less else {kind, self.in_doubt})
