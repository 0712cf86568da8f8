"""Verbs about children, and about what follows a run's end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.run import State
    from torpor.store.rows import FollowUp, RunRow


class FamilyVerbs(Protocol):
    """Follow-ups, children."""

    def add_follow_ups(self, ids: Sequence[int]) -> None:
        """Say that others must learn of these runs' end or cancellation. Under each run's lock; once is enough."""

    def follow_ups(self, *, limit: int) -> list[FollowUp]:
        """Return follow-ups by number of the run, locked, skipping what others have locked."""

    def move_follow_ups(self, places: Sequence[FollowUp]) -> None:
        """Say how far the children of runs were seen to."""

    def drop_follow_ups(self, ids: Sequence[int]) -> None:
        """Say that nothing is left to be done for these runs. Under each run's lock."""

    def backlog(self, *, most: int) -> tuple[int, int]:
        """Count messages and follow-ups that were not seen to, each at most `most`, without locking any."""

    def undelivered(self) -> bool:
        """Whether there are messages or follow-ups, those that somebody works on at this moment included.

        To be asked before runs are looked at: what a delivery starts is there as soon as its message is gone.
        """

    def live_children(self, places: Sequence[FollowUp], *, limit: int) -> list[tuple[int, int]]:
        """Return (parent, child) of children that did not end and are above `after`, by parent and child."""

    def children(self, parent: int, *, limit: int) -> list[RunRow]:
        """Return the newest children of a run, ended and independent ones included, oldest first."""

    def count_children(self, parent: int, *, most: int) -> dict[State, int]:
        """Count the children of a run by state, at most `most` of them in all."""

    def count_down(self, waits: Sequence[tuple[int, int, int]]) -> None:
        """Lower what (run, slot) needs by a number, under the run's lock."""

    def spent(self, run: int, keys: Sequence[str]) -> set[str]:
        """Return which of these keys belong to signals that the run has consumed."""

    def forget_spent(self, run: int, keys: Sequence[str]) -> None:
        """Forget that the run has consumed signals with these keys: what is sent with one again is new."""

    def name_blobs(self, names: Sequence[tuple[bytes, int]]) -> None:
        """Say that (digest, run): a run names a blob that another run wrote, so that it stays while either needs it."""
