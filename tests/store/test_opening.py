"""Opening a store: which URL is which database, and what is said about the others."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from torpor.errors import UsageError
from torpor.store.migrate import newest
from torpor.store.opening import open_store
from torpor.store.postgres.connect import parse
from torpor.store.sqlite import SqliteStore

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
