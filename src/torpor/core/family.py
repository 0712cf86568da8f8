"""Children: the names under which a run hears of them, and when their ends wake it.

A child's start and its end reach its parent as signals under reserved names, so that everything that holds for signals
holds for them: kept if early, consumed exactly once by an entry (G7). A signal about an end carries the body of the
child's last entry, and its sender is the word of the child's state.

A parent that waits for several of its children is woken once, when the last of them ended: its wait holds their numbers
and how many must still end, and whoever delivers an end counts that down under the parent's lock (G20).
"""

from __future__ import annotations

from struct import iter_unpack, pack
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

RESERVED = "~"
"""Names of signals that begin with it are torpor's own."""
_DONE = "~done:"


class Wishes(NamedTuple):
    """What a parent says of a child beside its program and input."""

    key: str = ""
    most: int | None = None
    """A budget, in micro-units."""
    trace: str = ""
    """The traceparent of what starts it."""


def wishes(key: str, most: int | None, trace: str = "") -> str:
    """Return a child's `Wishes` as a text."""
    traced = f"@{trace}" if trace else ""
    return f"{'' if most is None else most}{traced}:{key}" if key or traced or most is not None else ""


def wishes_of(said: str) -> Wishes:
    """Return what `wishes` said."""
    front, _, key = said.partition(":")
    most, _, trace = front.partition("@")
    return Wishes(key, int(most) if most else None, trace)


def started_name(key: str) -> str:
    """Return the name under which a run hears that the child it asked for with this message key was started."""
    return f"~child:{key}"


def done_name(child: int) -> str:
    """Return the name under which a run hears of the end of one of its children."""
    return f"{_DONE}{child}"


def counted(names: Iterable[str], here: Collection[str]) -> tuple[int, bytes | None]:
    """Return how many children a wait for signals of these names still needs, and all it is for.

    `here` are the names of the signals that came. A wait for anything else than ends of children counts nothing.
    """
    ends = {name: int(name[len(_DONE) :]) for name in names if name.startswith(_DONE)}
    if not ends:
        return 0, None
    return sum(name not in here for name in ends), pack_members(ends.values())


def pack_members(children: Iterable[int]) -> bytes:
    """Return the numbers of children as a wait keeps them."""
    numbers = sorted(children)
    return pack(f">{len(numbers)}q", *numbers)


def members_of(packed: bytes | None) -> frozenset[int]:
    """Return the children that a wait is for."""
    return frozenset(number for (number,) in iter_unpack(">q", packed or b""))
