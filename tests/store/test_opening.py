"""Opening a store: which URL is which database, and what is said about the others."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from torpor.errors import UsageError
from torpor.store.migrate import newest
from torpor.store.opening import open_store
from torpor.store.postgres.connect import parse
from torpor.store.sqlite import SqliteStore, connect

if TYPE_CHECKING:
    from pathlib import Path

_NO_DRIVER = """
import sys
sys.modules["psycopg"] = None
from torpor.errors import UsageError
from torpor.store.opening import open_store
open_store(":memory:").close_now()
try:
    open_store("postgresql://nowhere/x")
except UsageError as error:
    print(error.hint)
"""
_LAZY = """
import sys
from torpor.store.migrate import newest
from torpor.store.opening import open_store
open_store(":memory:").close_now()
print("psycopg" in sys.modules)
"""


@pytest.mark.parametrize("url", [":memory:", "sqlite://", "sqlite:///:memory:"])
def test_memory(url: str) -> None:
    """Every common way of saying it."""
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    assert (store.kind, store.path, store.schema()) == ("sqlite", ":memory:", newest("sqlite"))
    store.close_now()


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_files(tmp_path: Path, form: str) -> None:
    """A plain path, and a URL with one."""
    path = tmp_path / "a b.db"
    store = open_store(form.format(path))
    store.close_now()
    assert path.exists()


def test_a_url_may_have_escapes(tmp_path: Path) -> None:
    """As URLs do."""
    open_store(f"sqlite:///{tmp_path}/a%20b.db").close_now()
    assert (tmp_path / "a b.db").exists()


@pytest.mark.parametrize("url", ["mysql://host/db", "", "sqlite://host", "sqlite:///", "http://x"])
def test_unknown_forms(url: str) -> None:
    """The hint says which forms there are."""
    with pytest.raises(UsageError) as refused:
        open_store(url)
    assert "sqlite:///" in refused.value.hint


def test_the_driver_is_loaded_only_for_a_server() -> None:
    """SQLite needs no psycopg, and a server without psycopg is said with the command that installs it."""
    said = subprocess.run([sys.executable, "-c", _NO_DRIVER], check=True, capture_output=True, text=True).stdout
    assert said == "pip install 'torpor[postgres]'\n"
    said = subprocess.run([sys.executable, "-c", _LAZY], check=True, capture_output=True, text=True).stdout
    assert said == "False\n"


def test_a_server_s_url() -> None:
    """The schema is taken out, the password is not shown, what the caller says about the connection is kept."""
    place = parse("postgresql://me:secret@db.example:6543/shop?schema=runs_1&connect_timeout=3&sslmode=require")
    assert (place.schema, place.words) == ("runs_1", "postgresql db.example:6543/shop schema runs_1")
    assert "schema" not in place.conninfo
    assert "connect_timeout=3" in place.conninfo
    assert "sslmode=require" in place.conninfo
    assert "keepalives_idle=" in place.conninfo
    assert parse("postgresql://h/d").schema == "torpor"


def test_what_libpq_is_told_by_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL without it does not put torpor's own in its place."""
    monkeypatch.delenv("PGCONNECT_TIMEOUT")
    assert "connect_timeout=10" in parse("postgresql://h/d").conninfo
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "60")
    monkeypatch.setenv("PGAPPNAME", "shop")
    told = parse("postgresql://h/d").conninfo
    assert "connect_timeout" not in told
    assert "application_name" not in told


@pytest.mark.parametrize("schema", ["Runs", "a-b", "pg_x", "a;b", "a" * 64, ""])
def test_a_schema_that_would_need_quoting_is_refused(schema: str) -> None:
    """It is put into statements as it is."""
    with pytest.raises(UsageError):
        parse(f"postgresql://h/d?schema={schema}")


def test_a_new_file_that_others_switch_as_well_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses one of those who switch it to a write-ahead log together: of four one failed in 3 of 100 tries."""
    execute, refused = connect.Connection.execute, list[str]()

    def refusing(self: connect.Connection, statement: str, *given: Any) -> sqlite3.Cursor:
        if "journal_mode" in statement and len(refused) < 2:
            refused.append(statement)
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return execute(self, statement, *given)

    monkeypatch.setattr(connect.Connection, "execute", refusing)
    store = open_store(str(tmp_path / "torpor.db"))
    assert store.schema() == newest("sqlite")
    assert len(refused) == 2
    store.close_now()


class Read(list[Any]):
    """Rows that were read at a moment that is past."""

    def fetchone(self) -> Any:
        """Return the first."""
        return self[0]


@pytest.mark.parametrize("first", ["user_version", "sqlite_master"])
def test_a_file_that_another_makes_meanwhile_is_torpors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Its tables and its number are read one after the other; another process makes both in between, or before."""
    path, execute = str(tmp_path / "torpor.db"), connect.Connection.execute

    def between(self: connect.Connection, statement: str, *given: Any) -> Any:
        found = execute(self, statement, *given)
        if first not in statement:
            return found
        rows = Read(found.fetchall())
        monkeypatch.undo()
        open_store(path).close_now()
        return rows

    monkeypatch.setattr(connect.Connection, "execute", between)
    store = open_store(path)
    assert store.schema() == newest("sqlite")
    store.close_now()
