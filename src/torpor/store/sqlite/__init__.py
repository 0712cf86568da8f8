"""SQLite, embedded: WAL, one writer at a time, several processes on one file. The only room that imports `sqlite3`."""

from __future__ import annotations

from torpor.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
