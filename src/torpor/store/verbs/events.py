"""Verbs about events and about answers to messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import NewReply
    from torpor.core.event import EventRow, NewEvent


class EventVerbs(Protocol):
    """Events, answers."""

    def lock_matches(self, matches: Sequence[int]) -> None:
        """Be the only one who registers a wait for, or hands on, events of these matches until the transaction ends.

        Before any run is locked. A database with one writer has nothing to do.
        """

    def add_event(self, event: NewEvent) -> tuple[int, bool]:
        """Keep an event and return its number, and whether it is new: an equal name and key is the same event."""

    def get_event(self, event: int) -> EventRow | None:
        """Return an event that has not expired."""

    def going_events(self, *, limit: int, name: str | None = None) -> list[EventRow]:
        """Return events whose fan-out is not through, of a name or of any, oldest first."""

    def move_event(self, event: int, *, reached: int | None, taken: int) -> None:
        """Say how far the fan-out came, None for its end, and count the runs that got the event."""

    def runs_waiting_for(self, matches: Sequence[int], *, after: int, limit: int) -> list[int]:
        """Return runs above `after` that have an open wait for an event of one of these matches, in order."""

    def early_events(self, match: int, run: int, *, after: int, limit: int) -> list[EventRow]:
        """Return kept events of a match that this run never got, above number `after`, oldest first."""

    def mark_waits(self, waits: Sequence[tuple[int, int, int]]) -> None:
        """Say of (run, slot, seq) that what ends it lies in the run's inbox."""

    def list_events(self, *, limit: int) -> list[EventRow]:
        """Return the newest events, those included that expired and reached nobody."""

    def expire_events(self, *, limit: int) -> int:
        """Let go of events whose time is over: of one that reached nobody the name stays. Return how many."""

    def drop_events(self, *, before: int, limit: int) -> int:
        """Forget events that expired before a moment and reached nobody; return how many."""

    def known_keys(self, run: int, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that the run's inbox has seen."""

    def put_replies(self, replies: Sequence[tuple[int, NewReply]]) -> None:
        """Keep answers to clients; the first one of a key stays."""

    def get_reply(self, key: str) -> bytes | None:
        """Return the answer of a key."""

    def drop_replies(self, *, before: int, limit: int) -> int:
        """Forget answers given before a moment; return how many."""
