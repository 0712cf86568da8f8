"""Several rows in one statement.

Each call of SQLite gives the interpreter's lock away and takes it back, and while the worker's loop is busy that takes
its time: 808 microseconds a row were measured one by one, 57 together. So a batch becomes few statements, of sizes that
are powers of two, so that their prepared forms are found again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from torpor.store.rows import Append

_SIZES = (128, 64, 32, 16, 8, 4, 2, 1)
_COLUMNS = 7  # of a journal row
FEW = 3
"""So many rows are not worth a savepoint."""


def _sizes(rows: int) -> Iterator[int]:
    while rows:
        size = next(size for size in _SIZES if size <= rows)
        yield size
        rows -= size


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


def add_entries(db: sqlite3.Connection, rows: Sequence[Append], now: int) -> None:
    """Insert the entries of appends that passed their fence."""
    values: list[object] = []
    for run_id, _, epoch, head, _, added in rows:
        for seq, (kind, key, body) in enumerate(added, start=head + 1):
            values += (
                run_id,
                seq,
                now,
                epoch,
                int(kind),
                key,
                body,
            )  # sqlite3 takes 1 us to see that an enum is an int
    place = 0
    for size in _sizes(len(values) // _COLUMNS):
        db.execute(_insertion(size), values[place : place + size * _COLUMNS])
        place += size * _COLUMNS


def fence_all(db: sqlite3.Connection, rows: Sequence[Append], expires_at: int) -> bool:
    """Move the heads and extend the leases of all rows, or change nothing (G1).

    False if one was refused or carries any flag: the caller then asks row by row, which also tells which.
    """
    db.execute("SAVEPOINT fence")
    whole = True
    place = 0
    for size in _sizes(len(rows)):
        values = [expires_at]  # the first parameter in the text stands in SET, before those of VALUES
        for run_id, token, epoch, head, _, added in rows[place : place + size]:
            values += (len(added), run_id, token, epoch, head)
        whole = db.execute(_fencing(size), values).rowcount == size
        if not whole:
            db.execute("ROLLBACK TO fence")
            break
        place += size
    db.execute("RELEASE fence")
    return whole
