"""Opening a store from a URL: which database, and whether its schema is the one this torpor needs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from torpor import clock as machine
from torpor.errors import UsageError
from torpor.store import migrate
from torpor.store.outside import Outside

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.store.protocol import Store

_FORMS = "sqlite:///PATH, PATH, :memory: or postgresql://USER@HOST/DATABASE"
_MEMORY = frozenset({":memory:", "sqlite://", "sqlite:///:memory:", "sqlite:"})


def open_store(
    url: str,
    *,
    create: bool = True,
    clock: Callable[[], int] | None = None,
    durable: bool = True,
    blobs: str = "",
) -> Store:
    """Open a database, and with `create` give an empty one its tables. Blocking, for a moment.

    `blobs` is where large bodies are kept: a folder or the URL of a bucket, empty for the database itself.
    `clock` is the clock of an SQLite store, in microseconds; a server has its own. `durable=False` trades the last
    moments before a loss of power for speed. Raises UsageError for a URL of no known form, StoreUnavailable,
    StoreCorrupt, and SchemaMismatch as `check_schema` does.
    """
    store = _unopened(url, create=create, clock=clock, durable=durable, blobs=blobs)
    try:
        if create and store.schema() == 0:
            store.migrate()
        check_schema(store)
    except BaseException:
        store.close_now()
        raise
    return store


def check_schema(store: Store) -> None:
    """Raise SchemaMismatch if a store's schema is older or newer than this torpor. Blocking."""
    path = getattr(store, "path", None)
    where = f"sqlite {path}" if path is not None else store.url
    migrate.refuse_old(store.kind, store.schema(), where)


def _unopened(url: str, *, create: bool, clock: Callable[[], int] | None, durable: bool, blobs: str = "") -> Store:
    outside = Outside(blobs)
    scheme, colon, rest = url.partition("://")
    if colon and scheme in {"postgresql", "postgres"}:
        return _postgres(url, durable=durable, outside=outside)
    if url in _MEMORY:
        return _sqlite(":memory:", create=create, clock=clock, durable=durable, outside=outside)
    if colon and scheme == "sqlite":
        if not rest.startswith("/") or rest == "/":
            raise UsageError(f"{url!r} names no file", hint="sqlite:///./torpor.db, or sqlite:////srv/torpor.db")
        return _sqlite(unquote(rest[1:]), create=create, clock=clock, durable=durable, outside=outside)
    if (
        colon or not url or url.startswith(("sqlite:", "postgresql:", "postgres:"))
    ):  # one colon, no slashes: no file's name
        raise UsageError(f"{url!r} is no store that torpor knows", hint=_near(url))
    return _sqlite(url, create=create, clock=clock, durable=durable, outside=outside)


def _near(url: str) -> str:
    """Return what was probably meant, else the forms there are."""
    scheme, _, rest = url.partition(":")
    return f"sqlite:///{rest.lstrip('/')}" if scheme == "sqlite" and rest.strip("/") else _FORMS


def _sqlite(path: str, *, create: bool, clock: Callable[[], int] | None, durable: bool, outside: Outside) -> Store:
    from torpor.store.sqlite import SqliteStore

    return SqliteStore(path, durable=durable, clock=clock or machine.wall, create=create, outside=outside)


def _postgres(url: str, *, durable: bool, outside: Outside) -> Store:
    try:
        from torpor.store.postgres import PostgresStore
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != "psycopg":
            raise
        raise UsageError(
            "PostgreSQL needs psycopg, which is not installed", hint="pip install 'torpor[postgres]'"
        ) from missing
    return PostgresStore(url, durable=durable, outside=outside)
