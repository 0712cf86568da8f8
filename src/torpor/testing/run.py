"""A run in a lab."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """A run in a lab."""

    number: int
    name: str

    def __str__(self) -> str:
        """Return its public id."""
        return self.name
