"""Several rows in one statement.

Each call of SQLite gives the interpreter's lock away and takes it back, and while the worker's loop is busy that takes
its time: 808 microseconds a row were measured one by one, 57 together. So a batch becomes few statements, of sizes that
are powers of two, so that their prepared forms are found again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from torpor.store.rows import Append

T = TypeVar("T")

_SIZES = (128, 64, 32, 16, 8, 4, 2, 1)
FEW = 3
"""So many rows are not worth a savepoint."""


def _parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    place = 0
    while place < len(rows):
        size = next(size for size in _SIZES if size <= len(rows) - place)
        yield rows[place : place + size]
        place += size


@lru_cache(maxsize=16)
def _insertion(rows: int) -> str:
    places = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * rows)
    return f"INSERT INTO journal (run_id, seq, at, epoch, kind, key, body) VALUES {places}"


@lru_cache(maxsize=16)
def _fencing(rows: int) -> str:
    places = ", ".join(["(?, ?, ?, ?, ?)"] * rows)
    return (
        f"UPDATE leases SET head = leases.head + v.column1, expires_at = ? FROM (VALUES {places}) AS v"
        " WHERE run_id = v.column2 AND token = v.column3 AND epoch = v.column4 AND head = v.column5 AND flags = 0"
    )


def add_entries(db: sqlite3.Connection, entries: Sequence[tuple[Any, ...]]) -> None:
    """Insert journal rows."""
    for part in _parts(entries):
        db.execute(_insertion(len(part)), [value for entry in part for value in entry])


def fence_all(db: sqlite3.Connection, rows: Sequence[Append], expires_at: int) -> bool:
    """Move the heads and extend the leases of all rows, or change nothing (G1).

    False if one was refused or carries any flag: the caller then asks row by row, which also tells which.
    """
    db.execute("SAVEPOINT fence")
    whole = True
    for part in _parts(rows):
        values: list[int] = []
        for run_id, token, epoch, head, _, added in part:
            values += (len(added), run_id, token, epoch, head)
        # the first parameter in the text stands in SET, before those of VALUES
        whole = db.execute(_fencing(len(part)), [expires_at, *values]).rowcount == len(part)
        if not whole:
            db.execute("ROLLBACK TO fence")
            break
    db.execute("RELEASE fence")
    return whole
