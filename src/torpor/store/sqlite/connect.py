"""Opening a database file, and saying plainly what is wrong with one."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torpor.errors import StoreCorrupt, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_SECONDS = 10.0
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LATER = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_PERM: "may not be opened by this user",
    sqlite3.SQLITE_AUTH: "refused what was asked",
}


def translate(error: sqlite3.Error, where: str) -> StoreError | None:
    """Return what an error of SQLite means for a caller, or None: it is a defect, let it through."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in _DAMAGED:
        return StoreCorrupt(
            f"{where} is damaged or no torpor database: {error}",
            hint="keep the file; restore a backup, or `sqlite3 FILE .recover` into a new one",
        )
    if primary == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"the disk that holds {where} is full", hint="free some space; nothing acknowledged is lost")
    if primary in _LATER:
        return StoreUnavailable(f"{where} {_LATER[primary]}: {error}", hint="check the path, its folder and its permissions")
    return None


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise torpor's own errors for those of SQLite that a caller can do something about."""
    try:
        yield
    except sqlite3.Error as error:
        meaning = translate(error, where)
        if meaning is None:
            raise
        raise meaning from error


def connect(path: str, *, durable: bool = True) -> sqlite3.Connection:
    """Open a connection for one lane.

    `durable` is `synchronous=FULL`: what was acknowledged survives loss of power (G3). Checkpoints are not left to
    whoever commits; `SqliteStore.tend` makes them.
    """
    memory = path == ":memory:"
    with translated(path):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)
        if not memory:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA wal_autocheckpoint=0")
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        connection.execute("PRAGMA cache_size=-16000")
    return connection
