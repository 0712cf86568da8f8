"""A schema that another test has used is like a new one; what could not be like one is not used again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.schemas import Schemas
from tests.stores import Place
from torpor.engine import runs
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stores import Moment


@pytest.fixture
def make(tmp_path: Path, moment: Moment, server_url: Callable[[str], str]) -> Callable[[], Place]:
    """Return a function that makes a database on a server, each from what the one before left."""
    spares = Schemas()
    return lambda: Place("postgres", tmp_path, moment, server_url("postgres"), spares)


def seen(place: Place) -> dict[str, Any]:
    """Return all that a schema holds: rows of each table, and where its sequences stand."""
    tables = place.admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (place.schema,)).fetchall()
    found = {table: place.admin.execute(f"TABLE {table}".encode()).fetchall() for (table,) in tables}
    sequences = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = %s ORDER BY 1"
    return {**found, "sequences": place.admin.execute(sequences, (place.schema,)).fetchall()}


def test_what_a_test_did_is_gone(make: Callable[[], Place], moment: Moment) -> None:
    """No row is left, every number begins again; name and secret are others."""
    first = make()
    new, name, files = seen(first), first.schema, size(first)
    store = first.open()
    store.transact_now(runs.register, [("greet", 1, "source")])
    number = [
        store.transact_now(runs.start, [runs.Start("greet", values.encode(1, path="state"))])[0].run_id
        for _ in range(2)
    ]
    assert number == [1, 2]
    moment.advance(60)
    first.close()
    second = make()
    again = seen(second)
    assert second.schema != name
    assert again.pop("moment") == [(moment.at,)]
    assert new.pop("moment") == [(moment.at - 60_000_000,)]
    keys, keys_again = dict(new.pop("meta")), dict(again.pop("meta"))
    assert keys.pop("token_key") != keys_again.pop("token_key")
    assert (again, keys_again, size(second)) == (new, keys, files)
    second.admin.execute("ALTER TABLE runs SET (fillfactor = 50)")
    changed = second.schema
    second.close()
    third = make()
    assert seen(third)["runs"] == []
    assert third.admin.execute("SELECT to_regnamespace(%s)", (changed,)).fetchone() == (None,)
    assert third.admin.execute("SELECT reloptions FROM pg_class WHERE oid = 'runs'::regclass").fetchone() != (
        ["fillfactor=50"],
    )
    third.close()


def size(place: Place) -> int:
    """Return how many tables have a page."""
    statement = """SELECT count(*) FROM pg_class
        WHERE relnamespace = %s::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0"""
    row = place.admin.execute(statement, (place.schema,)).fetchone()
    assert row is not None
    return int(row[0])
