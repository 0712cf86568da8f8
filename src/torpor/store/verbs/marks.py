"""Verbs about marks: which memory of a machine may go on (`rouse.beacon`)."""

from __future__ import annotations

from typing import Protocol


class MarkVerbs(Protocol):
    """Marks of machines."""

    def mark(self, machine: str) -> str | None:
        """Return a machine's mark as it was written."""

    def set_mark(self, machine: str, expected: tuple[str, int] | None, new: tuple[str, int], body: str) -> bool:
        """Write a machine's mark, `new` being its (lineage, counter), if the present one is `expected`; whether it was.

        Of several transactions that expect the same mark one writes, also of those that meet at a machine without one.
        """
