"""Where the choices of a history come from: Hypothesis, which can shrink them, or a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from hypothesis.strategies import DataObject

T = TypeVar("T")


class Draws(Protocol):
    """Makes choices."""

    def one(self, options: Sequence[T]) -> T:
        """Choose one of some."""

    def maybe(self) -> bool:
        """Choose yes or no."""


class Drawn:
    """Choices that Hypothesis makes."""

    def __init__(self, source: DataObject) -> None:
        """Draw from a rule's own source."""
        self._source = source

    def one(self, options: Sequence[T]) -> T:
        """Choose one of some."""
        return self._source.draw(st.sampled_from(options))

    def maybe(self) -> bool:
        """Choose yes or no."""
        return self._source.draw(st.booleans())


class Seeded:
    """Choices that follow from a seed."""

    def __init__(self, random: Random) -> None:
        """Draw from a generator."""
        self._random = random

    def one(self, options: Sequence[T]) -> T:
        """Choose one of some."""
        return self._random.choice(options)

    def maybe(self) -> bool:
        """Choose yes or no."""
        return self._random.random() < 0.5
