"""Verbs of the hot path, and what travels in a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import Blob, NewMessage, NewRow
    from torpor.core.run import Flag
    from torpor.store.rows import Append, Claim, Claimed, Leave, Left, StateRow, WaitRow


class HotVerbs(Protocol):
    """Claim, append, leave."""

    def claim(self, wanted: Claim) -> list[Claimed]:
        """Make ready runs running, with epoch + 1 and a lease, and return everything a worker needs, in one round trip.

        By priority, then by due time, of one tenant, skipping what others have locked.
        """

    def append(self, rows: Sequence[Append], *, lease_micros: int) -> dict[int, Flag]:
        """Append fenced entries, take the signals they consume, move heads, extend leases.

        Return the flags of the runs that were not refused; for the others nothing was written or taken (G1, G7).
        """

    def leave(self, rows: Sequence[Leave]) -> dict[int, Left]:
        """Append fenced entries and end the stretch. Return what became of the runs that were not refused (G1, G7)."""

    def fence_order(self, leaving: Sequence[int], going: Sequence[int]) -> None:
        """Lock the runs in `leaving`, then the leases in `going`, each in order: before `append` and `leave` together."""


class CommitVerbs(Protocol):
    """What becomes true together with the entries of a commit."""

    def put_states(self, states: Sequence[StateRow]) -> None:
        """Overwrite checkpoints."""

    def put_waits(self, waits: Sequence[WaitRow]) -> None:
        """Write waits into their slots."""

    def end_waits(self, slots: Sequence[tuple[int, int]]) -> None:
        """Mark (run, slot) as over."""

    def take_signals(self, signals: Sequence[tuple[int, int]]) -> None:
        """Consume (run, seq): gone if it has no key, emptied if it has one, so that a repetition is still known."""

    def add_rows(self, rows: Sequence[tuple[int, NewRow]]) -> None:
        """Append elements of `Rows` fields."""

    def get_rows(self, run: int, field: str, *, after: int, limit: int) -> list[bytes]:
        """Return elements of a `Rows` field whose number is >= `after`, in order."""

    def add_messages(self, messages: Sequence[tuple[int, NewMessage]]) -> None:
        """Put messages into the outbox."""

    def put_blobs(self, blobs: Sequence[tuple[int, Blob]]) -> None:
        """Write packed blobs, each once, and that this run names them. Outside the database, if the store was told so."""

    def get_blobs(self, digests: Sequence[bytes], *, later: bool = False) -> dict[bytes, bytes]:
        """Return packed blobs, or their excuses (`blobs.packing.excuse`); those that were never written are not in it.

        With `later` what lies outside the database is filled in after the commit: for an operation that only passes it
        on. Without, the operation is run again once it is here (`store.outside`).
        """

    def drop_leaving(self, digests: Sequence[bytes]) -> None:
        """Forget blobs that a sweep has deleted outside the database."""
