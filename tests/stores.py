"""Stores for the tests: a fresh database each, and a clock that is moved by hand."""

from __future__ import annotations

import secrets
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg

from tests import schemas
from tests.poolers import pooler
from torpor.store.opening import open_store
from torpor.store.postgres import PostgresStore
from torpor.store.postgres.tx import PostgresTx
from torpor.store.sqlite import SqliteStore
from torpor.store.sqlite.tx import SqliteTx

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torpor.store.protocol import Store, Tx

KINDS = ("memory", "sqlite", "postgres")
SERVERS = ("postgres", "postgres15", "pooled")
"""Kinds that lie on a server: the newest, the oldest, and the newest behind PgBouncer in transaction mode."""
START_AT = 1_893_456_000_000_000
"""The first of January 2030: every test begins here."""
_CLOCK = """
CREATE TABLE moment (at bigint NOT NULL);
INSERT INTO moment VALUES ({at});
CREATE OR REPLACE FUNCTION torpor_now() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT at FROM moment';
CREATE OR REPLACE FUNCTION torpor_started_at() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT 0::bigint';
"""


def raw(tx: Tx) -> Any:
    """Return the database's own connection in a transaction, for what no verb does."""
    assert isinstance(tx, SqliteTx | PostgresTx)
    return tx.connection()


class Moment:
    """The clock of every store of a test, in microseconds. It moves when it is told to."""

    def __init__(self) -> None:
        """Begin at START_AT."""
        self.at = START_AT
        self._moved: list[Callable[[int], None]] = []
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return the moment."""
        return self.at

    def advance(self, seconds: float) -> int:
        """Move on, or back, and return the new moment."""
        with self._lock:
            self.at += round(seconds * 1_000_000)
            for moved in self._moved:
                moved(self.at)
            return self.at

    def follow(self, moved: Callable[[int], None]) -> None:
        """Call `moved` with each new moment."""
        self._moved.append(moved)


class Place:
    """A fresh database, on which any number of stores can be opened, as by several processes."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        moment: Moment,
        server_url: str = "",
        spares: schemas.Schemas | None = None,
    ) -> None:
        """Make the database. `server_url` is asked for the kinds that lie on a server, whose `spares` may be used.

        `pooled` is a server behind PgBouncer in transaction mode: it is spoken to as a role of its own, because there
        only a role can say where an author's statements look for names.
        """
        self.kind = kind
        self.moment = moment
        self._open = ExitStack()
        self.schema = ""
        if kind == "memory":
            self.url = ":memory:"
        elif kind == "sqlite":
            self.url = f"sqlite:///{folder / 'torpor.db'}"
        else:
            self.schema = f"t_{secrets.token_hex(6)}"
            own = f"{self.schema}_own"  # what an author's statements find without naming a schema
            self.admin = self._open.enter_context(psycopg.connect(server_url, autocommit=True))
            self.admin.execute(f"CREATE SCHEMA {own}".encode())
            self._open.callback(self._leave, own, spares if kind != "pooled" else None)
            if kind == "pooled":
                server_url = self._pool(server_url, own)
            self.url = f"{server_url}?schema={self.schema}&application_name={self.schema}"
            if kind != "pooled":
                self.url += f"&options=-csearch_path%3D{own}"
            self._made = spares.take(self.admin, self.schema) if spares is not None and kind != "pooled" else None
            self._make_schema()

    @property
    def on_server(self) -> bool:
        """Whether it lies on a PostgreSQL server."""
        return bool(self.schema)

    def _pool(self, server_url: str, own: str) -> str:
        role = self.schema
        self.admin.execute(f"CREATE ROLE {role} SUPERUSER LOGIN".encode())
        self.admin.execute(f"ALTER ROLE {role} SET search_path TO {own}".encode())
        pooled = ExitStack()
        self._open.push(pooled)
        pooled.callback(self._drop_role, role)
        return pooled.enter_context(pooler(server_url, role))

    def _drop_role(self, role: str) -> None:
        for statement in (f"REASSIGN OWNED BY {role} TO CURRENT_USER", f"DROP OWNED BY {role}", f"DROP ROLE {role}"):
            self.admin.execute(statement.encode())

    def _make_schema(self) -> None:
        if self._made is None:
            store = PostgresStore(self.url)
            store.migrate()
            store.close_now()
        self.admin.execute(f"SET search_path TO {self.schema}".encode())
        if self._made is None:
            self.admin.execute(_CLOCK.format(at=self.moment.at).encode(), prepare=False)
            self._made = schemas.look(self.admin, self.schema)
        self._move(self.moment.at)
        self.moment.follow(self._move)

    def _leave(self, own: str, spares: schemas.Schemas | None) -> None:
        """Drop what this database has on the server, or leave it to another test."""
        if spares is not None and self._made is not None:
            spares.give_back(self.admin, self.schema, self._made)
        self.admin.execute(f"DROP SCHEMA IF EXISTS {self.schema}, {own} CASCADE".encode())

    def _move(self, at: int) -> None:
        self.admin.execute("UPDATE moment SET at = %s", (at,))

    def remake(self, text: str) -> None:
        """Put what SQL text makes in the place of a server's schema, on this test's clock."""
        self.admin.execute(f"DROP SCHEMA {self.schema} CASCADE".encode())
        self.admin.execute(f"CREATE SCHEMA {self.schema}".encode())
        self.admin.execute(text.encode(), prepare=False)
        self.admin.execute(_CLOCK.format(at=self.moment.at).encode(), prepare=False)

    def open(self, *, blobs: str = "") -> Store:
        """Open another store on this database, large values in a place of their own; it is closed with the place."""
        store = open_store(self.url, clock=self.moment.now, blobs=blobs)
        self._open.callback(store.close_now)
        return store

    def postgres(self) -> PostgresStore:
        """Open another store on a server's database, as what it is."""
        store = self.open()
        assert isinstance(store, PostgresStore)
        return store

    def sqlite(self) -> SqliteStore:
        """Open another store on a file or in memory, as what it is."""
        store = self.open()
        assert isinstance(store, SqliteStore)
        return store

    def blocked(self, count: int = 1) -> None:
        """Return once so many connections of this database wait for a lock that another one has."""
        statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
        waiting = 0
        while waiting < count:
            row = self.admin.execute(statement, (self.schema,)).fetchone()
            waiting = row[0] if row is not None else 0

    def cut(self) -> int:
        """Break every connection of this database, as a failover would; return how many there were."""
        statement = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE application_name = %s"
        row = self.admin.execute(statement, (self.schema,)).fetchone()
        return int(row[0]) if row is not None else 0

    def close(self) -> None:
        """Close every store and drop the database."""
        self._open.close()


if TYPE_CHECKING:

    def every_verb(file: SqliteTx, server: PostgresTx) -> list[Tx]:
        """Let mypy see that each database has every verb of the protocol."""
        return [file, server]
