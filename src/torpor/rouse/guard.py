"""A thing that refuses use in another life than its own: the check at use.

There is no transparent proxy: a proxy leaks (`isinstance`, special methods, a method kept in a variable), and the place where
the check happens should be visible. `.get()` is that place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from .errors import Stale
from .incarnation import incarnation

if TYPE_CHECKING:
    from .incarnation import Incarnation

T = TypeVar("T")


class Guard(Generic[T]):
    """Keeps a value and the incarnation it was born in. Made by `guard()`."""

    __slots__ = ("_value", "born_in")

    def __init__(self, value: T, born_in: Incarnation) -> None:
        """Bind `value` to the life `born_in`."""
        self._value = value
        self.born_in = born_in

    def __repr__(self) -> str:
        """Show the type only: the value may be a credential."""
        return f"<guard on {type(self._value).__name__}, born in {self.born_in}>"

    def get(self) -> T:
        """The value, to use it now. Get it again for the next use.

        Raises:
            Stale: this is another incarnation. Let go of the value and make a new one.
        """
        now = incarnation()
        if now != self.born_in:
            raise Stale(
                f"a {type(self._value).__name__} born in incarnation {self.born_in} was used in {now}",
                born_in=self.born_in,
                now=now,
                hint="make a new one: this process was copied, frozen or asleep since the old one was made",
            )
        return self._value

    def is_stale(self) -> bool:
        """Whether `get()` would raise."""
        return incarnation() != self.born_in

    def let_go(self) -> T:
        """The value whatever the incarnation: to drop it, never to use it.

        Never say goodbye on it either: a connection may be shared with a copy, which still talks on it.
        """
        return self._value


def guard(value: T, *, born_in: Incarnation | None = None) -> Guard[T]:
    """Bind `value` to the present life, or to the one it was really born in.

    Pass `born_in` if making the value took time (a connect, a login): take `incarnation()` before, not after.
    """
    return Guard(value, incarnation() if born_in is None else born_in)
