"""Append-only state: a checkpoint writes only the new elements, whatever the length.

`Rows` are top-level fields of a flow's state. The state itself stores the length; elements lie in their own table,
numbered; reading is `async for`. Only appended elements are in memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

T = TypeVar("T")

PAGE = 500
_NOBODYS = "these rows belong to no run, so there is nothing to read them from"
Fetch = Callable[[str, int, int], Awaitable[list[Any]]]
"""From (field, first number, how many) to elements."""


@dataclass(init=False, eq=False, repr=False)
class Rows(Generic[T]):
    """An append-only list of a state. `len()` is known, elements are read with `async for`, new ones are appended.

    As part of a stored state it is its length and nothing else (`seal`).
    """

    kept: int
    """How many elements lie in the store."""

    def __init__(self, first: Iterable[T] = ()) -> None:
        """Begin with elements that are written at the first checkpoint."""
        self.kept = 0
        self._new: list[T] = list(first)

    def append(self, element: T) -> None:
        """Append an element; the next checkpoint writes it."""
        self._new.append(element)

    def extend(self, elements: Iterable[T]) -> None:
        """Append several."""
        self._new.extend(elements)

    def __len__(self) -> int:
        """Return how many there are, written or not."""
        return self.kept + len(_appended(self))

    def __bool__(self) -> bool:
        """Whether there is any."""
        return len(self) > 0

    def __eq__(self, other: object) -> bool:
        """Compare what is known without reading: length kept, and what was appended."""
        return isinstance(other, Rows) and (self.kept, _appended(self)) == (other.kept, _appended(other))

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        """Show the length, not the elements: they are elsewhere."""
        return f"<Rows: {len(self)}, {len(_appended(self))} of them new>"

    def __aiter__(self) -> AsyncIterator[T]:
        """Read all elements in order, in pages."""
        return self._read()

    async def last(self, n: int) -> list[T]:
        """Return the last n elements in order, or as many as there are, without reading those before."""
        new = self._new[-n:] if n > 0 else []
        most = min(n - len(new), self.kept)
        if most <= 0:
            return new
        source: tuple[str, Fetch] | None = vars(self).get("_source")
        if source is None:
            raise UsageError(_NOBODYS, hint="read them inside the flow that holds the state")
        return [*await source[1](source[0], self.kept - most, most), *new]

    async def one(self, n: int) -> T:
        """Return the element number n, from 0. Raises IndexError if there is none."""
        if not 0 <= n < len(self):
            message = f"there is no element {n} of {len(self)}"
            raise IndexError(message)
        if n >= self.kept:
            return self._new[n - self.kept]
        source: tuple[str, Fetch] | None = vars(self).get("_source")
        if source is None:
            raise UsageError(_NOBODYS, hint="read them inside the flow that holds the state")
        element: T = (await source[1](source[0], n, 1))[0]
        return element

    async def _read(self) -> AsyncIterator[T]:
        place = 0
        kept = self.kept
        source: tuple[str, Fetch] | None = vars(self).get("_source")
        while place < kept:
            if source is None:
                raise UsageError(_NOBODYS, hint="read them inside the flow that holds the state")
            page = await source[1](source[0], place, min(PAGE, kept - place))
            for element in page:
                yield element
            place += len(page)
        for element in list(self._new):
            yield element

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Let a pydantic model hold Rows: taken as they are; a list becomes new rows."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda given: given if isinstance(given, Rows) else cls(given),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda rows: {"rows": len(rows)}),
        )


def _appended(rows: Rows[Any]) -> list[Any]:
    """Return what was appended: nothing to rows that were decoded outside their flow."""
    appended: list[Any] = vars(rows).get("_new", [])
    return appended


def attach(rows: Rows[Any], field: str, fetch: Fetch) -> None:
    """Connect the rows of a freshly decoded state with the run that holds their elements."""
    own = vars(rows)
    own["_source"] = field, fetch
    own.setdefault("_new", [])


def seal(rows: Rows[Any]) -> tuple[int, list[Any]]:
    """Return the number of the first new element and the new elements; what is left is the length, ready to be stored."""
    own = vars(rows)
    first, new = rows.kept, own.pop("_new", [])
    rows.kept = first + len(new)
    own.pop("_source", None)
    return first, new
