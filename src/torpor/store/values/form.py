"""The words that the files of this room share: what a body is made of, and how a refusal finds its path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeAlias

Json: TypeAlias = Any
"""What orjson reads and writes: None, bool, int, float, str, list, dict with str keys."""
Node: TypeAlias = dict[str, Any]
"""A tagged object: `$` names the tag, `v` mostly holds the content."""
Wire: TypeAlias = Callable[[object], Json]
"""Turns one part of a value into JSON; raises `Refused`."""
Read: TypeAlias = Callable[[Json], object]
"""Turns one part of a body back into a value."""
Show: TypeAlias = Callable[[Json], Json]
"""Turns one part of a body into what people see."""

TAG = "$"
UNREADABLE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
"""What a tag's reader raises when the node is not as its writer made it."""


class Tag(NamedTuple):
    """One kind of value JSON cannot say: how it is written, read and shown. `kind` is matched exactly, not by subclass."""

    name: str
    kind: type
    write: Callable[[Any, Wire], Json]
    read: Callable[[Node, Read], object]
    show: Callable[[Node, Show], Json]


class Refused(Exception):
    """A value that cannot be stored. Each container on the way out says where it stood, so the path costs nothing before."""

    def __init__(self, reason: str, *, hint: str) -> None:
        """Start at the bad value itself."""
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self._steps: list[str] = []

    def under(self, step: str) -> Self:
        """Add one step of the path, from the inside out."""
        self._steps.append(step)
        return self

    def path(self, start: str) -> str:
        """The whole path, as the author would write it."""
        return start + "".join(reversed(self._steps))


def key_step(key: object) -> str:
    """The step into a dict: `.name`, or `["odd name"]`, or `[Type]` for a key that is no string."""
    if type(key) is str:
        return f".{key}" if key.isidentifier() else f"[{key!a}]"
    if type(key) is int:
        return f"[{key}]"
    return f"[{type(key).__name__}]"
