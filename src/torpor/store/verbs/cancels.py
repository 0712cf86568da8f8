"""Verbs about cancels: why, and what is to be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import CompensationRow


class CancelVerbs(Protocol):
    """Reasons, compensations."""

    def put_cancels(self, reasons: Sequence[tuple[int, str]]) -> None:
        """Say why runs are cancelled, each once: the first reason stays."""

    def cancels(self, ids: Sequence[int]) -> dict[int, str]:
        """Return why runs were cancelled, where somebody said it."""

    def add_compensations(self, rows: Sequence[CompensationRow]) -> None:
        """Register what is to be done if a run is cancelled."""

    def drop_compensations(self, refs: Sequence[tuple[int, str]]) -> None:
        """Take (run, ref) back."""

    def compensations(self, run: int) -> list[CompensationRow]:
        """Return what is to be done if a run is cancelled, oldest first."""
