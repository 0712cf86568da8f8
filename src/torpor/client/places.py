"""Where a store lies, in words that may be printed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from torpor.engine.queries.doctor import Place

if TYPE_CHECKING:
    from torpor.store.protocol import Store, Tx
    from torpor.store.sqlite.tx import SqliteTx

CHECKED_BYTES = 256 << 20
"""A larger SQLite file is checked for damage only if asked: all of it is read."""


def place_of(tx: Tx, store: Store, check: bool | None) -> Place:  # noqa: FBT001 - passed on
    """Return what is known of the database itself."""
    from pathlib import Path

    from torpor.store.sqlite import SqliteStore

    if not isinstance(store, SqliteStore):
        return Place(store.kind, without_password(store.url), "PostgreSQL", 0)
    from torpor.store.sqlite.store import integrity
    from torpor.store.sqlite.turnstile import holder, way_out

    database = cast("SqliteTx", tx).connection()
    version = f"SQLite {database.execute('SELECT sqlite_version()').fetchone()[0]}"
    if store.path == ":memory:":
        return Place(store.kind, "memory", version, 0)
    file, wal = Path(store.path), Path(f"{store.path}-wal")
    count = file.stat().st_size
    small = count <= CHECKED_BYTES if check is None else check
    complaint = integrity(database) if small else None
    damage = None if complaint is None else "" if complaint == "ok" else complaint
    wal_bytes = wal.stat().st_size if wal.exists() else 0
    found = holder(store.path)
    kept = (f"pid {found.pid} is stopped while it has the turn", way_out(found)) if found and found.frozen else ("", "")
    return Place(store.kind, store.path, version, 0, count, wal_bytes, damage, *kept)


def blobs_address(given: str | None = None) -> str:
    """Return where large values are kept: what was given, TORPOR_BLOBS, a `.env` file, or "" for the store itself."""
    if given is not None:
        return given
    if "TORPOR_BLOBS" in os.environ or not os.path.isfile(".env"):  # noqa: PTH113 - pathlib is not loaded for this
        return os.environ.get("TORPOR_BLOBS", "")
    from torpor.settings import Settings  # pydantic is loaded only where there is such a file

    return Settings().blobs


def without_password(url: str) -> str:
    """Return a store's address as it may be printed."""
    scheme, mark, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{login.partition(':')[0]}{at}{host}" if at else url
