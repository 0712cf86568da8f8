"""Several rows in one statement.

Each step of SQLite gives the interpreter's lock away and takes it back, and while the worker's loop is busy that takes
its time: 808 microseconds a row were measured one by one, 57 together. Whoever writes has everybody's turn meanwhile. So
a batch is one statement, filled up with rows of NULL to a power of two, so that its prepared form is found again; and
what a statement finds comes back as one row of JSON where it is all numbers, since a row is a step, too.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

_MOST = 512
PREPARED = 512
"""So many prepared statements a connection keeps: those with rows in a few sizes each, all others once."""


def adding(into: str, *, replacing: bool = False) -> str:
    """Return the statement that inserts rows `into` a table: `"states (run_id, body)"`."""
    columns = ", ".join(f"column{n}" for n in range(1, into.count(",") + 2))
    verb = "INSERT OR REPLACE" if replacing else "INSERT"
    return f"{verb} INTO {into} SELECT {columns} FROM (VALUES (rows)) WHERE column1 IS NOT NULL"


@lru_cache(maxsize=PREPARED)
def _text(statement: str, rows: int, columns: int) -> str:
    return statement.replace("(rows)", ", ".join([f"({', '.join('?' * columns)})"] * rows))


def _parts(statement: str, rows: Sequence[Sequence[object]]) -> Iterator[tuple[str, list[object]]]:
    for place in range(0, len(rows), _MOST):
        part = rows[place : place + _MOST]
        size, columns = 1 << (len(part) - 1).bit_length(), len(part[0])
        values = [value for row in part for value in row]
        values += [None] * ((size - len(part)) * columns)
        yield _text(statement, size, columns), values


def write(db: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> int:
    """Execute a statement with `VALUES (rows)` in it for equally long rows; return how many rows it changed.

    It must do nothing for a row whose first column is NULL: see `adding` for the usual way to insert. `sqlite3` takes a
    microsecond to see that an enum is a number: give numbers.
    """
    return sum(db.execute(text, values).rowcount for text, values in _parts(statement, rows))


def read(db: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> list[Any]:
    """Execute a query with `VALUES (rows)` in it that answers with one JSON array; return all its elements."""
    found: list[Any] = []
    for text, values in _parts(statement, rows):
        found += json.loads(db.execute(text, values).fetchone()[0])
    return found


def read_by_number(db: sqlite3.Connection, columns: str, source: str, ids: Sequence[int]) -> list[Any]:
    """Return columns that hold numbers, of the rows of `source` (`FROM ... WHERE ... IN`) with these numbers."""
    query = f"SELECT json_group_array(json_array({columns})) {source} (SELECT value FROM json_each(?))"
    return list(json.loads(db.execute(query, (json.dumps(list(ids)),)).fetchone()[0]))


def read_numbers(db: sqlite3.Connection, query: str, values: Sequence[object]) -> list[int]:
    """Return what a query of one column, named n, finds, in its order."""
    text = f"SELECT json_group_array(n) FROM ({query})"
    return list(json.loads(db.execute(text, values).fetchone()[0]))
