"""A thing that is made anew in each life: for what cannot be made sound, only replaced."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from .incarnation import PerProcess, incarnation

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from .incarnation import Incarnation

T = TypeVar("T")


class Renewed(Generic[T]):
    """`renewed.get()` at each use; never keep what it gives. From any thread; `make` runs once per life."""

    def __init__(self, make: Callable[[], T]) -> None:
        """Make nothing yet. `make` may take time: its value belongs to the life in which it began."""
        self._make = make
        self._lock = PerProcess(_new_lock)
        self._made: dict[Incarnation, T] = {}

    def get(self) -> T:
        """The value of this life. What `make` raises, this raises, and the next call tries again."""
        now = incarnation()
        if now not in self._made:
            with self._lock.get():
                if now not in self._made:
                    self._made[now] = self._make()
        return self._made[now]

    def let_go(self) -> list[T]:
        """The values of lives that are over, forgotten here. Until then they are kept: `__del__` may say goodbye."""
        now = incarnation()
        return [self._made.pop(life) for life in tuple(self._made) if life != now]


def _new_lock() -> AbstractContextManager[object]:
    return threading.RLock()
