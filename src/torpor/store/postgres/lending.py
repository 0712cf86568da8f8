"""Lending the connection to a transactional effect: its writes become true with the commit that records them (G6).

A server has no authorizer, so the borrower gets a cursor that takes one statement at a time and refuses those that end
a transaction, and afterwards torpor looks: it must be the same transaction, unharmed, and none of torpor's tables
written to. Names without a schema are looked for where the URL, the role or the database says, as in any connection
of the author's own: torpor's schema is not there.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from torpor import clock
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.store.postgres.connect import Connection

LENT_SECONDS = 2.0
"""So long one effect may hold what it locked."""
_ENTER = f"""SET LOCAL search_path TO DEFAULT; SET LOCAL plan_cache_mode TO DEFAULT;
    SET LOCAL enable_hashjoin TO DEFAULT; SET LOCAL enable_mergejoin TO DEFAULT; SET LOCAL enable_seqscan TO DEFAULT;
    SET LOCAL enable_bitmapscan TO DEFAULT; SET LOCAL statement_timeout TO {round(LENT_SECONDS * 1000)}"""
_LEAVE = "SET LOCAL search_path TO {schema}; SET LOCAL statement_timeout TO DEFAULT"
_SIGHT = """SELECT pg_current_xact_id()::text,
    (SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_xact_user_tables WHERE schemaname = %s)"""
_ENDS = re.compile(
    r"(\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(begin|start|commit|end|rollback|abort|savepoint|release|prepare\s+transaction|discard|set|reset|listen|unlisten)\b",
    re.IGNORECASE | re.DOTALL,
)
_HINT = "its writes belong to torpor's transaction: plain statements on tables of your own, nothing else"


class LentCursor(psycopg.Cursor[Any]):
    """A cursor for one statement at a time, none of which may end the transaction or change a setting."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> LentCursor:
        """Run one statement. Raises UsageError for one that a borrower must not run."""
        text = (
            query if isinstance(query, str) else query.decode() if isinstance(query, bytes) else query.as_string(self)
        )
        if _ENDS.match(text):
            raise UsageError(f"a transactional effect must not run {text.strip()[:40]!r}", hint=_HINT)
        if self.connection.prepare_threshold is None:  # behind a pooler: in a pipeline the server takes one statement
            with self.connection.pipeline():
                super().execute(query, params, **more)
        else:
            super().execute(query, params, **{**more, "prepare": True})  # prepared: here too one statement, not two
        return self


class Lent:
    """What a transactional effect gets: `execute`, and cursors of its own."""

    def __init__(self, connection: Connection) -> None:
        """Keep the connection out of sight."""
        self._connection = connection

    def cursor(self) -> LentCursor:
        """Return a new cursor."""
        return LentCursor(self._connection)

    def execute(self, query: Any, params: Any = None) -> LentCursor:
        """Run one statement on a new cursor and return it."""
        return self.cursor().execute(query, params)


@contextmanager
def lent(connection: Connection, schema: str) -> Iterator[Lent]:
    """Give an open transaction's connection away for a moment. Raises UsageError for what a borrower must not do."""
    until = clock.monotonic() + LENT_SECONDS
    before = connection.execute(_SIGHT, (schema,)).fetchone()
    connection.execute(_ENTER, prepare=False)
    try:
        yield Lent(connection)
    except errors.QueryCanceled as error:
        raise _too_long() from error
    if connection.info.transaction_status is not TransactionStatus.INTRANS:
        raise UsageError("a transactional effect hid an error of the database", hint="let the error out, or avoid it")
    connection.execute(_LEAVE.format(schema=schema).encode(), prepare=False)
    if connection.execute(_SIGHT, (schema,)).fetchone() != before:
        raise UsageError("G6: a transactional effect ended the transaction or wrote to torpor's own tables", hint=_HINT)
    if clock.monotonic() > until:
        raise _too_long()


def _too_long() -> UsageError:
    return UsageError(
        f"a transactional effect took longer than {LENT_SECONDS:g} s, while it held what it had locked",
        hint="prepare its values in a step before it",
    )
