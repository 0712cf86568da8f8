"""No table is forgotten: what a prune removes with a run, and what no author's statement may touch, is every one there is."""

from __future__ import annotations

import re
import sqlite3

import pytest

from torpor.store import tables
from torpor.store.migrate import migrations
from torpor.store.sqlite.connect import TABLES


def columns() -> dict[str, set[str]]:
    """Return the columns of each table that the migrations for SQLite make."""
    database = sqlite3.connect(":memory:")
    try:
        for _, text in migrations("sqlite"):
            database.executescript(text)
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: {row[1] for row in database.execute(f"PRAGMA table_info({name})")}
            for name in names
            if not name.startswith("sqlite_")
        }
    finally:
        database.close()


def test_every_table_of_a_run_is_pruned_with_it() -> None:
    """A table with a `run_id` goes with the run, or holds the run back, or only names it: store/tables.py says which."""
    known = {*tables.OF_A_RUN, *tables.ON_THEIR_WAY, *tables.NAME_ONE}
    with_run = {name for name, has in columns().items() if "run_id" in has}
    assert with_run == known
    assert len(known) == len(tables.OF_A_RUN) + len(tables.ON_THEIR_WAY) + len(tables.NAME_ONE)


def test_every_table_is_known_by_name() -> None:
    """A transactional effect is kept from all of them, and a missing one is a schema that does not fit."""
    assert set(columns()) == set(TABLES)


@pytest.mark.parametrize("number", sorted({number for number, _ in migrations("sqlite")}))
def test_both_databases_have_the_same_tables(number: int) -> None:
    """Each migration makes the same tables on both."""
    made = [set(re.findall(r"CREATE TABLE (\w+)", dict(migrations(kind))[number])) for kind in ("sqlite", "postgres")]
    assert made[0] & set(TABLES) == made[1]  # what is renamed afterwards is no table
