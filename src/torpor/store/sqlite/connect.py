"""Opening a database file, and saying plainly what is wrong with one."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torpor import clock
from torpor.errors import SchemaMismatch, StoreCorrupt, StoreError, StoreUnavailable, UsageError
from torpor.store.sqlite.together import PREPARED
from torpor.store.sqlite.wal import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_SECONDS = 10.0
_PAUSE_SECONDS = 0.002
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
TABLES = (
    *("meta", "programs", "tenants", "runs", "run_keys", "states", "leases", "journal", "waits", "inbox", "outbox"),
    *("rows", "blobs", "blob_runs", "workers"),
    *("follow_ups",),
    *("streams", "parts", "views"),
    *("schedules", "slots"),
    *("events", "event_matches", "replies", "too_late"),
    *("lines", "places", "deadlines", "cancels", "compensations", "traces"),
    *("budgets", "holds", "shorts", "buckets"),
    *("forks", "cut_rows", "prunes", "stream_prunes", "retention"),
    *("marks",),
)
_MISSING = re.compile(rf"no such table: (main\.)?({'|'.join(TABLES)})")
_LATER = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_LOCKED: "is locked",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_PERM: "may not be opened by this user",
    sqlite3.SQLITE_AUTH: "refused what was asked",
}


def translate(error: sqlite3.Error, where: str, *, committing: bool = False) -> StoreError | None:
    """Return what an error of SQLite means for a caller, or None: it is a defect, let it through.

    A file that failed while `committing` leaves open whether the commit is in it.
    """
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in _DAMAGED:
        return StoreCorrupt(
            f"{where} is damaged or no torpor database: {error}",
            hint="keep the file; restore a backup, or `sqlite3 FILE .recover` into a new one",
        )
    if primary == sqlite3.SQLITE_FULL:
        return StoreUnavailable(
            f"the disk that holds {where} is full", hint="free some space; nothing acknowledged is lost"
        )
    if primary in _LATER:
        meaning = StoreUnavailable(
            f"{where} {_LATER[primary]}: {error}", hint="check the path, its folder and its permissions"
        )
        meaning.answer_lost = committing and primary == sqlite3.SQLITE_IOERR
        return meaning
    if _MISSING.fullmatch(str(error)):
        return SchemaMismatch(f"there are no tables of this torpor in {where}: {error}", hint="torpor migrate")
    return None


@contextmanager
def translated(where: str, *, committing: bool = False) -> Iterator[None]:
    """Raise torpor's own errors for those of SQLite that a caller can do something about."""
    try:
        yield
    except sqlite3.Error as error:
        meaning = translate(error, where, committing=committing)
        if meaning is None:
            raise
        raise meaning from error


class Connection(sqlite3.Connection):
    """A connection that cannot be closed while it is lent to an author's code."""

    lent = False

    def close(self) -> None:
        """Close it. Raises UsageError while it is lent."""
        if self.lent:
            raise UsageError("a transactional effect must not close its connection", hint="torpor ends the transaction")
        super().close()


def connect(path: str, *, durable: bool = True) -> Connection:
    """Open a connection for one lane.

    `durable` is `synchronous=FULL`: what was acknowledged survives loss of power (G3). Whoever commits copies the WAL back
    1,000 pages, so that its file is written over and over instead of growing: a commit that extends it costs half as much
    again (`wal.lay_out`), and a process that starts reads all of it. `SqliteStore.tend` sees to the rest.
    """
    memory = path == ":memory:"
    with translated(path):
        connection = sqlite3.connect(
            path,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_SECONDS,
            factory=Connection,
            cached_statements=PREPARED,
        )
        try:
            if not memory:
                _write_ahead(connection)
            more = [] if memory else [f"wal_autocheckpoint={PAGES}", f"synchronous={'FULL' if durable else 'NORMAL'}"]
            for setting in [*more, "cache_size=-16000"]:  # to its end: a statement left open makes a COMMIT fail
                connection.execute(f"PRAGMA {setting}").fetchall()
        except BaseException:
            connection.close()
            raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a file to its write-ahead log, if it is not. Of several that come to a new file at once SQLite refuses some.

    It needs the file for itself then, and does not wait for those who look at it, whatever `timeout` says.
    """
    ends_at = clock.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or clock.monotonic() > ends_at:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
