"""What an executor gathers for its next commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.journal import Entry, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import NewCompensation, NewMessage, NewReply, NewWait, Proposal

TITLE_LETTERS = 300
_RESULTS = frozenset({Kind.OUTCOME, Kind.FAILURE})


class Draft:
    """What was gathered for the next commit. A refused draft goes back in front of what came after it.

    Most drafts are one entry, so everything else is an empty tuple until it is used.
    """

    __slots__ = (
        "closes",
        "compensations",
        "dropped",
        "entries",
        "looked",
        "messages",
        "not_before",
        "over",
        "replies",
        "settles",
        "taken",
        "waits",
    )

    def __init__(self, entries: list[Entry] | None = None) -> None:
        """Begin with entries, or with none."""
        self.entries: list[Entry] = [] if entries is None else entries
        self.waits: Sequence[NewWait] = ()
        self.closes: Sequence[tuple[int, int]] = ()
        self.over: Sequence[int] = ()
        self.taken: Sequence[int] = ()
        self.messages: Sequence[NewMessage] = ()
        self.compensations: Sequence[NewCompensation] = ()
        self.dropped: Sequence[str] = ()
        self.replies: Sequence[NewReply] = ()
        self.settles: Sequence[tuple[str, int]] = ()
        self.not_before = 0
        self.looked = False

    @property
    def only_entries(self) -> bool:
        """Whether nothing but entries was gathered."""
        return not (
            self.waits
            or self.closes
            or self.over
            or self.taken
            or self.messages
            or self.compensations
            or self.dropped
            or self.not_before
            or self.replies
            or self.settles
            or self.looked
        )

    def into(self, proposal: Proposal) -> None:
        """Let a proposal carry what was gathered beside its entries."""
        proposal.waits, proposal.closes, proposal.over = self.waits, self.closes, self.over
        proposal.taken, proposal.messages, proposal.not_before = self.taken, self.messages, self.not_before
        proposal.compensations, proposal.dropped = self.compensations, self.dropped
        proposal.replies, proposal.settles, proposal.looked = self.replies, self.settles, self.looked

    def before(self, later: Draft) -> Draft:
        """Return both in one; waits name their entry by its place, so those of the later one move along."""
        both = Draft(self.entries + later.entries)
        moved = [w._replace(seq=w.seq + len(self.entries)) if w.fresh else w for w in later.waits]
        both.waits = (*self.waits, *moved)
        both.closes = (*self.closes, *later.closes)
        both.over = (*self.over, *later.over)
        both.taken = (*self.taken, *later.taken)
        both.messages = (*self.messages, *later.messages)
        both.compensations = (*self.compensations, *later.compensations)
        both.dropped = (*self.dropped, *later.dropped)
        both.replies = (*self.replies, *later.replies)
        both.settles = (*self.settles, *later.settles)
        both.not_before = max(self.not_before, later.not_before)
        both.looked = self.looked or later.looked
        return both

    def drop(self, place: int) -> None:
        """Take back the entry at a place, counted from 1, and the wait it opened; waits of later ones move along."""
        del self.entries[place - 1]
        kept = [w for w in self.waits if not (w.fresh and w.seq == place)]
        self.waits = [w._replace(seq=w.seq - 1) if w.fresh and w.seq > place else w for w in kept]

    def drop_intent(self, key: str) -> None:
        """Take back the intent of an effect that is not to be."""
        for place, entry in enumerate(self.entries, start=1):
            if entry.kind is Kind.INTENT and entry.key == key:
                self.drop(place)
                return

    def only_results(self) -> Draft:
        """Return what must be kept of calls that ended, when nothing else may go on."""
        results = Draft([e for e in self.entries if e.kind in _RESULTS and e.key is not None])
        results.messages = [message for message in self.messages if not message.kind.spawns]  # theirs are among them
        results.settles = self.settles
        results.looked = self.looked
        return results
