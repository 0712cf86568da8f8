"""Columns of a batch as PostgreSQL arrays, in forms whose type never depends on their values.

psycopg would choose `int2[]` or `int8[]` by the numbers in a list, and every combination is a prepared statement of its
own, planned anew. Numbers travel as array literals, which the statement casts; texts and bytes in binary form.
"""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg import Connection

_BYTEA, _TEXT, _BYTEA_ARRAY, _TEXT_ARRAY = 17, 25, 1001, 1009
_NULL = b"\xff\xff\xff\xff"


def longs(numbers: Iterable[int | None]) -> str:
    """Return an array literal of numbers; the statement says of which type."""
    return "{" + ",".join(["NULL" if number is None else str(int(number)) for number in numbers]) + "}"


class ByteaArray:
    """A `bytea[]`, packed."""

    __slots__ = ("packed",)

    def __init__(self, bodies: Sequence[bytes | None]) -> None:
        """Pack bodies."""
        self.packed = _packed(_BYTEA, bodies)


class TextArray:
    """A `text[]`, packed."""

    __slots__ = ("packed",)

    def __init__(self, texts: Sequence[str | None]) -> None:
        """Pack texts."""
        self.packed = _packed(_TEXT, [None if text is None else text.encode() for text in texts])


def _packed(oid: int, bodies: Sequence[bytes | None]) -> bytes:
    if not bodies:
        return pack(">iii", 0, 0, oid)
    parts = [pack(">iiiii", 1, 1, oid, len(bodies), 1)]
    for body in bodies:
        if body is None:
            parts.append(_NULL)
        else:
            parts.append(len(body).to_bytes(4, "big"))
            parts.append(body)
    return b"".join(parts)


class _ByteaArrayDumper(Dumper):
    format = Format.BINARY
    oid = _BYTEA_ARRAY

    def dump(self, obj: ByteaArray) -> bytes:
        """Return the packed form."""
        return obj.packed


class _TextArrayDumper(Dumper):
    format = Format.BINARY
    oid = _TEXT_ARRAY

    def dump(self, obj: TextArray) -> bytes:
        """Return the packed form."""
        return obj.packed


def teach(connection: Connection[tuple[object, ...]]) -> None:
    """Make a connection know these forms, and send every number as `int8`."""
    connection.adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
    connection.adapters.register_dumper(TextArray, _TextArrayDumper)
    connection.adapters.register_dumper(int, Int8BinaryDumper)
