"""Verbs that read what runs did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.journal import Stored
    from torpor.store.rows import StateRow


class JournalVerbs(Protocol):
    """The journal and the checkpoints."""

    def journal(self, run: int, *, after: int = 0, limit: int = 10_000) -> list[Stored]:
        """Return entries above `after`, in order."""

    def journal_tail(self, run: int, *, limit: int) -> list[Stored]:
        """Return the newest entries, in order."""

    def entries(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Stored]:
        """Return entries by (run, seq)."""

    def states(self, ids: Sequence[int]) -> dict[int, StateRow]:
        """Return current checkpoints."""

    def open_intents(self, ids: Sequence[int]) -> dict[int, list[Stored]]:
        """Return the intents after each run's checkpoint that have no outcome."""
