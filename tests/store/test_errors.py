"""What an error of a database means for a caller, where no test can make the database say it."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
from psycopg import errors

from torpor.errors import SchemaMismatch, StoreCorrupt, StoreUnavailable
from torpor.store.postgres.connect import translate as of_postgres
from torpor.store.sqlite.connect import translate as of_sqlite


def _failed(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


def test_a_file_that_fails_at_the_commit_is_in_doubt() -> None:
    """Only then: before the commit nothing has happened, and a full disk refuses the commit whole."""
    for code, committing, lost in [
        (sqlite3.SQLITE_IOERR, True, True),
        (sqlite3.SQLITE_IOERR | (4 << 8), True, True),  # an extended code: the fsync failed
        (sqlite3.SQLITE_IOERR, False, False),
        (sqlite3.SQLITE_FULL, True, False),
        (sqlite3.SQLITE_BUSY, True, False),
    ]:
        meaning = of_sqlite(_failed(code), "torpor.db", committing=committing)
        assert isinstance(meaning, StoreUnavailable)
        assert meaning.answer_lost is lost


def test_damage_is_not_try_again() -> None:
    """Corruption is told apart from trouble that passes."""
    assert isinstance(of_sqlite(_failed(sqlite3.SQLITE_CORRUPT), "torpor.db"), StoreCorrupt)
    assert isinstance(of_postgres(errors.IndexCorrupted("x"), "db"), StoreCorrupt)


@pytest.mark.parametrize(
    "kind", [errors.AdminShutdown, errors.CannotConnectNow, errors.TooManyConnections, errors.QueryCanceled]
)
def test_a_server_in_trouble_is_try_again(kind: type[psycopg.Error]) -> None:
    """Shutting down, starting up, full: the same command may work later."""
    meaning = of_postgres(kind("x"), "db", answer_lost=True)
    assert isinstance(meaning, StoreUnavailable)
    assert meaning.answer_lost
    assert meaning.hint


def test_a_defect_stays_a_defect() -> None:
    """A statement that is wrong is no trouble of the store."""
    assert of_postgres(errors.SyntaxError("x"), "db") is None
    assert of_postgres(errors.UniqueViolation("x"), "db") is None
    assert of_sqlite(sqlite3.IntegrityError("UNIQUE constraint failed"), "torpor.db") is None
    assert isinstance(of_postgres(errors.UndefinedTable("x"), "db"), SchemaMismatch)
    assert isinstance(of_sqlite(sqlite3.OperationalError("no such table: runs"), "torpor.db"), SchemaMismatch)
    assert of_sqlite(sqlite3.OperationalError("no such table: orders"), "torpor.db") is None
