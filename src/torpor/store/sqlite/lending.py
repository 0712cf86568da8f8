"""Lending the connection to a transactional effect: its writes become true with the commit that records them (G6).

SQLite asks an authorizer about everything a statement would do, before it is run. While the connection is lent, nothing
may end the transaction, open another file, change a setting, or touch a table of torpor, not even through a trigger.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torpor import clock
from torpor.errors import UsageError
from torpor.store.sqlite.connect import TABLES, Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

LENT_SECONDS = 2.0
"""So long one effect may keep everybody else from writing."""
_STEPS = 1_000
_NEVER = frozenset(
    {
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_PRAGMA,
    }
)
_OURS = frozenset(TABLES)
_HINT = "its writes belong to torpor's transaction: plain statements on tables of your own, nothing else"


def _allowed(action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None) -> int:
    if action in _NEVER or first in _OURS or second in _OURS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


@contextmanager
def lent(db: Connection) -> Iterator[sqlite3.Connection]:
    """Give an open transaction's connection away for a moment. Raises UsageError for what a borrower must not do."""
    until = clock.monotonic() + LENT_SECONDS
    db.lent = True
    db.set_authorizer(_allowed)
    db.set_progress_handler(lambda: int(clock.monotonic() > until), _STEPS)
    try:
        yield db
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_AUTH:
            raise UsageError(f"a transactional effect did what it must not do: {error}", hint=_HINT) from error
        if code == sqlite3.SQLITE_INTERRUPT:
            raise _too_long() from error
        raise
    finally:
        db.set_progress_handler(None, 0)
        db.set_authorizer(None)
        db.lent = False
    if clock.monotonic() > until:
        raise _too_long()


def _too_long() -> UsageError:
    return UsageError(
        f"a transactional effect took longer than {LENT_SECONDS:g} s, while nobody else could write",
        hint="prepare its values in a step before it",
    )
