"""Stores that are full, damaged, older, newer or not there: a clear error with the next step, and nothing lost."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.meeting import Beside
from tests.conformance.world import LEASE, add, populate
from tests.stores import raw
from torpor.core.journal import Entry, Kind
from torpor.core.run import Flag
from torpor.errors import SchemaMismatch, StoreCorrupt, StoreUnavailable, UsageError
from torpor.store import migrate
from torpor.store.opening import check_schema, open_store
from torpor.store.postgres import PostgresStore
from torpor.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stores import Place
    from torpor.store.protocol import Store, Tx

FUTURE = 98


@pytest.fixture
def another(shared: Place) -> Iterator[Callable[[], Store]]:
    """Return a function that opens one more store, without looking at its schema."""
    with ExitStack() as stack:

        def make() -> Store:
            path = shared.url.removeprefix("sqlite:///")
            store: Store = PostgresStore(shared.url) if shared.on_server else SqliteStore(path)
            stack.callback(store.close_now)
            return store

        yield make


def _number(place: Place, number: int) -> None:
    """Make the store's schema another one."""
    if place.on_server:
        place.admin.execute("UPDATE meta SET value = %s WHERE key = 'schema'", (str(number),))
    else:
        with closing(sqlite3.connect(place.sqlite().path)) as db, db:
            db.execute(f"PRAGMA user_version = {number}")
        db.close()


def test_an_older_schema_is_refused_until_migrated(
    shared: Place, another: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both numbers, where, and the command; two who migrate at once do it once; what was there is there afterwards."""
    shared.open().transact_now(lambda tx: tx.put_meta("kept", "yes"))
    known = migrate.migrations
    added = ((FUTURE, "CREATE TABLE added (id bigint);"),)
    present = migrate.newest(shared.open().kind)
    monkeypatch.setattr(migrate, "migrations", lambda kind: known(kind) + added)
    expected = f"the store's schema is {present}, this torpor needs {FUTURE}: "
    with pytest.raises(SchemaMismatch, match=expected) as refused:
        open_store(shared.url)
    assert refused.value.hint.startswith("torpor migrate   (")
    assert "sleeping runs are untouched" in refused.value.hint
    both = [Beside(another().migrate) for _ in range(2)]
    assert [one.result() for one in both] == [FUTURE, FUTURE]
    store = another()
    check_schema(store)
    assert store.transact_now(lambda tx: tx.get_meta("kept")) == "yes"
    if isinstance(store, SqliteStore):
        assert "a copy is kept beside it" in refused.value.hint
        copies = [path.name for path in Path(store.path).parent.glob("torpor.db.schema-*")]
        assert copies == [f"torpor.db.schema-{present}"], "one of the two migrated, and kept one copy"


def test_a_newer_schema_is_refused(shared: Place, another: Callable[[], Store]) -> None:
    """A torpor that is too old changes nothing."""
    known = migrate.newest(shared.open().kind)
    _number(shared, 99)
    with pytest.raises(SchemaMismatch, match=f"schema is 99, this torpor knows up to {known}") as refused:
        open_store(shared.url)
    assert "newer torpor" in refused.value.hint
    with pytest.raises(SchemaMismatch):
        another().migrate()


def test_a_database_without_tables_is_said(on_server: Place) -> None:
    """Whoever must not create them is told how they are made; so is one whose tables went away underneath."""
    url = on_server.url.replace(on_server.schema, "t_nothing_there", 1)
    with pytest.raises(SchemaMismatch, match=f"schema is 0, this torpor needs {migrate.newest('postgres')}") as refused:
        open_store(url, create=False)
    assert refused.value.hint.startswith("torpor migrate")
    store = on_server.postgres()
    on_server.admin.execute(f"DROP SCHEMA {on_server.schema} CASCADE".encode())
    with pytest.raises(SchemaMismatch, match="no tables of this torpor"):
        store.transact_now(lambda tx: tx.get_meta("k"))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """`create=False` makes no file, and a folder that is not there is no file either."""
    with pytest.raises(StoreUnavailable, match="there is no database at") as refused:
        open_store(str(tmp_path / "none.db"), create=False)
    assert "torpor dev APP.py" in refused.value.hint
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        open_store(str(tmp_path / "no" / "folder.db"))


def test_two_processes_that_open_an_empty_store_make_it_once(shared: Place) -> None:
    """Whoever comes second finds the tables."""
    stores = [Beside(lambda: open_store(shared.url)) for _ in range(4)]
    for one in stores:
        store = one.result()
        assert store.schema() == migrate.newest(store.kind)
        store.close_now()


def test_a_full_disk_loses_nothing_that_was_acknowledged(make_place: Callable[[str], Place]) -> None:
    """SQLite's own limit of pages stands for the disk: the commit is refused whole, and goes through once there is room."""
    store = make_place("sqlite").sqlite()
    world = populate(store, 1)
    lease = world.claim()[0].lease
    assert world.append([add(lease)])
    pages = store.transact_now(lambda tx: raw(tx).execute("PRAGMA page_count").fetchone()[0])
    limit = f"PRAGMA max_page_count = {pages + 2}"
    store.transact_now(lambda tx: raw(tx).execute(limit).fetchone())
    large = add(lease._replace(head=1), Entry(Kind.OUTCOME, "k", bytes(1_000_000)))
    with pytest.raises(StoreUnavailable, match="is full") as full:
        world.append([large])
    assert "nothing acknowledged is lost" in full.value.hint
    assert not full.value.answer_lost
    assert [entry.seq for entry in store.transact_now(lambda tx: tx.journal(lease.run_id))] == [1]
    store.transact_now(lambda tx: raw(tx).execute("PRAGMA max_page_count = 1000000").fetchone())
    assert world.append([large]) == {lease.run_id: Flag.NONE}


def test_a_full_disk_of_a_server_is_said(on_server: Place) -> None:
    """The server's own code for it, raised by a trigger in place of a disk."""
    store = on_server.postgres()
    on_server.admin.execute(
        b"""CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON journal EXECUTE FUNCTION full_disk()""",
        prepare=False,
    )
    world = populate(store, 1)
    lease = world.claim()[0].lease
    with pytest.raises(StoreUnavailable, match="no disk space left") as full:
        world.append([add(lease)])
    assert not full.value.answer_lost
    on_server.admin.execute("DROP TRIGGER full_disk ON journal")
    assert world.append([add(lease)]) == {lease.run_id: Flag.NONE}


@pytest.mark.parametrize("what", ["text", "header", "cut"])
def test_a_damaged_file_is_said_when_it_is_opened(tmp_path: Path, what: str) -> None:
    """No database at all, a broken first page, a file cut short: StoreCorrupt, and the file is left as it is."""
    path = tmp_path / "torpor.db"
    store = open_store(str(path))
    world = populate(store, 200)
    lease = world.claim(1)[0].lease
    store.transact_now(lambda tx: tx.append([add(lease, Entry(Kind.NOTE, None, bytes(100_000)))], lease_micros=LEASE))
    store.close_now()
    whole = path.read_bytes()
    damaged = {
        "text": b"to do: milk\n" * 500,
        "header": whole[:100] + b"\xff" * 4000 + whole[4100:],
        "cut": whole[:8192],
    }
    path.write_bytes(damaged[what])
    with pytest.raises(StoreCorrupt, match="damaged or no torpor database") as corrupt:
        open_store(str(path))
    assert "keep the file" in corrupt.value.hint
    assert path.read_bytes() == damaged[what]


def test_somebody_else_s_file_is_left_alone(tmp_path: Path) -> None:
    """A database with a table of ours that we did not make is not ours."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE runs (id, distance)")
    db.close()
    with pytest.raises(UsageError, match="has a table runs that is not torpor's"):
        open_store(str(path))


def test_a_deadlock_that_does_not_end_is_said(on_server: Place) -> None:
    """A transaction is run again a few times, then the caller hears of it."""
    store = on_server.postgres()
    tries: list[object] = []

    def op(tx: Tx) -> None:
        tries.append(tx)
        raw(tx).execute("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'deadlock_detected'; END $$")

    with pytest.raises(StoreUnavailable, match="cannot do it now"):
        store.transact_now(op)
    assert len(tries) > 2
