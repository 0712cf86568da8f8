"""What an executor gathers for its next commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torpor.core.journal import Entry, Kind

if TYPE_CHECKING:
    from torpor.core.commit import NewMessage, NewWait

TITLE_LETTERS = 300


@dataclass(slots=True)
class Draft:
    """What was gathered for the next commit. A refused draft goes back in front of what came after it."""

    entries: list[Entry] = field(default_factory=list)
    waits: list[NewWait] = field(default_factory=list)
    closes: list[tuple[int, int]] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    messages: list[NewMessage] = field(default_factory=list)
    not_before: int = 0

    def before(self, later: Draft) -> Draft:
        """Return both in one; waits name their entry by its place, so those of the later one move along."""
        moved = [w._replace(seq=w.seq + len(self.entries)) if w.fresh else w for w in later.waits]
        return Draft(
            self.entries + later.entries,
            self.waits + moved,
            self.closes + later.closes,
            self.over + later.over,
            self.taken + later.taken,
            self.messages + later.messages,
            max(self.not_before, later.not_before),
        )

    def only_results(self) -> Draft:
        """Return what must be kept of calls that ended, when nothing else may go on."""
        return Draft(entries=[e for e in self.entries if e.kind in {Kind.OUTCOME, Kind.FAILURE} and e.key is not None])
