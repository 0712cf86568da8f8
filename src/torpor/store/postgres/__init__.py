"""PostgreSQL 15 and newer, by psycopg. The only room that imports it, and it is opened only for a PostgreSQL URL."""

from __future__ import annotations

from torpor.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
