"""Fresh stores for measurements: a temporary file, or a schema of its own on a server. Nothing is left behind."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from torpor.bench.copies import FileCopying, SchemaCopying
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.bench.copies import Copying
    from torpor.bench.rows import Row

_SIZE = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %(schema)s AND c.relkind = 'r'"""


class Place(Protocol):
    """Where one trial keeps its runs."""

    url: str
    peer: str
    """How rows name it: `torpor-sqlite` or `torpor-postgres`."""
    folder: Path
    """A folder for this trial's other files; for a file store, that of the file."""

    def size_bytes(self) -> int:
        """Return what the store occupies now, all indexes and a write-ahead log beside the file included."""

    def durability(self) -> Row:
        """Return the settings that say whether a commit survives the loss of power."""

    def versions(self) -> Row:
        """Return the database's version."""

    def load_driver(self) -> None:
        """Load the library that speaks to this database: where loading is not part of what is measured."""

    def copying(self) -> Copying:
        """Open a connection that copies parked runs."""


class FilePlace:
    """A file in a folder of its own."""

    peer = "torpor-sqlite"

    def __init__(self, folder: Path) -> None:
        """Name the file; whoever opens the store makes it."""
        self.folder = folder
        self._path = folder / "torpor.db"
        self.url = f"sqlite:///{self._path}"

    def size_bytes(self) -> int:
        """Return the size of the file and of its log."""
        both = (self._path, Path(f"{self._path}-wal"))
        return sum(path.stat().st_size for path in both if path.exists())

    def _ask(self, question: str) -> str:
        from torpor.store.sqlite.connect import connect

        db = connect(str(self._path), durable=True)
        try:
            return str(db.execute(question).fetchone()[0])
        finally:
            db.close()

    def durability(self) -> Row:
        """Return how torpor's own connections are set."""
        level = self._ask("PRAGMA synchronous")
        return {"journal_mode": self._ask("PRAGMA journal_mode"), "synchronous": {"2": "full"}.get(level, level)}

    def versions(self) -> Row:
        """Return SQLite's version."""
        return {"sqlite": self._ask("SELECT sqlite_version()")}

    def load_driver(self) -> None:
        """Load SQLite's room."""
        import_module("torpor.store.sqlite")

    def copying(self) -> Copying:
        """Open a connection that copies."""
        return FileCopying(str(self._path))


class SchemaPlace:
    """A schema on a server."""

    peer = "torpor-postgres"

    def __init__(self, folder: Path, url: str, schema: str) -> None:
        """Name the schema; whoever opens the store makes it."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True)) | {"schema": schema}
        self.folder = folder
        self.schema = schema
        self.url = urlunsplit(parts._replace(query=urlencode(options)))

    def _ask(self, question: str, **params: str) -> str:
        from torpor.store.postgres.connect import parse
        from torpor.store.postgres.exchange import Seat

        seat = Seat(parse(self.url))
        try:
            rows = seat.ask(question, **params)
            return str(rows[0][0]) if rows else ""
        finally:
            seat.close()

    def size_bytes(self) -> int:
        """Return the size of every table of the schema, indexes included."""
        return int(self._ask(_SIZE, schema=self.schema))

    def durability(self) -> Row:
        """Return the server's settings."""
        return {name: self._ask(f"SHOW {name}") for name in ("fsync", "synchronous_commit")}

    def versions(self) -> Row:
        """Return the server's version."""
        return {"postgres": self._ask("SHOW server_version").split()[0]}

    def load_driver(self) -> None:
        """Load PostgreSQL's room."""
        import_module("torpor.store.postgres")

    def copying(self) -> Copying:
        """Open a connection that copies."""
        return SchemaCopying(self.url, self.schema)

    def drop(self) -> None:
        """Drop the schema."""
        self._ask(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


@contextmanager
def fresh(store: str) -> Iterator[Place]:
    """Give a place for one trial: `sqlite`, `sqlite:///FILE`, or the URL of a server. It is removed at the end.

    It is a file of its own in any case: `sqlite` in the system's temporary folder (TMPDIR; where that lies in memory, a
    row's `fdatasync_p50_ms` shows it), `sqlite:///FILE` beside that file, which is not touched: on the same disk.
    """
    scheme = urlsplit(store).scheme
    server = scheme in {"postgresql", "postgres"}
    if not server and scheme != "sqlite" and store != "sqlite":
        raise UsageError(
            f"a measurement makes a store of its own, it cannot use {store!r}",
            hint="sqlite, sqlite:///FILE or postgresql://...",
        )
    beside = Path(store.removeprefix("sqlite:///")).parent if scheme == "sqlite" else None
    if beside is not None and not beside.is_dir():
        raise UsageError(f"there is no folder {beside} to measure in", hint="make it, or --store sqlite")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torpor-bench-", dir=beside)))
        if not server:
            yield FilePlace(folder)
            return
        place = SchemaPlace(folder, store, f"torpor_bench_{secrets.token_hex(4)}")
        stack.callback(place.drop)
        yield place


def of_url(url: str, folder: Path) -> Place:
    """Return the place that a URL made by `fresh` names: for a process that was started by a measurement."""
    schema = dict(parse_qsl(urlsplit(url).query)).get("schema")
    return FilePlace(folder) if schema is None else SchemaPlace(folder, url, schema)
