"""Schemas on a server, made once and emptied for the next test: making one takes a hundred times what a test does with it.

A test never sees that its schema is not new. It has a name of its own, so that nobody who outlived another test finds it.
Every table that was written to is a new file, but for the few that hold a row or two from the beginning; every sequence
begins again, and the store has another secret. A schema in which anything but rows was changed is dropped, and so is every
spare at the end of the run.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

_SHAPE = """SELECT md5(string_agg(part, ' ' ORDER BY part)) FROM (
    SELECT concat_ws(',', 'class', oid, relname, relkind, relnatts, relhastriggers, relchecks, relowner, relacl, reloptions)
        FROM pg_class WHERE relnamespace = to_regnamespace('{schema}')
    UNION ALL SELECT concat_ws(',', 'column', attrelid, attnum, attname, atttypid, attnotnull, atthasdef, attisdropped)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = to_regnamespace('{schema}')
    UNION ALL SELECT concat_ws(',', 'constraint', oid, xmin) FROM pg_constraint WHERE connamespace = to_regnamespace('{schema}')
    UNION ALL SELECT concat_ws(',', 'function', oid, xmin) FROM pg_proc WHERE pronamespace = to_regnamespace('{schema}')
    UNION ALL SELECT concat_ws(',', 'type', oid, xmin) FROM pg_type WHERE typnamespace = to_regnamespace('{schema}')
) AS parts(part)"""
"""Everything of a schema but its rows."""
_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('{schema}') AND relkind = 'r'"
_ROWS = "SELECT format('INSERT INTO %I SELECT (%L::%I).*', '{table}', each::text, '{table}') FROM {table} AS each"
_BEGUN = """FROM (
        SELECT seqrelid, relname FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
        WHERE relnamespace = to_regnamespace('{schema}') OFFSET 0
    ) AS own WHERE pg_sequence_last_value(seqrelid) IS NOT NULL"""
"""The sequences that have begun. `OFFSET 0`: those of another schema, which may be dropped in this moment, are not asked."""
_COUNTED = f"SELECT format('PERFORM setval(%L, %s)', relname, pg_sequence_last_value(seqrelid)) {_BEGUN}"
_ANOTHER_KEY = """UPDATE meta SET value = replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '')
    WHERE key = 'token_key'"""
_EMPTY = f"""DO $do$ DECLARE written text; BEGIN
    SELECT string_agg(quote_ident(relname), ', ') INTO written FROM pg_class
        WHERE relnamespace = to_regnamespace('{{schema}}') AND relkind = 'r' AND pg_relation_size(oid) > 0
            AND relname NOT IN ({{kept}});
    IF written IS NOT NULL THEN EXECUTE 'TRUNCATE ' || written; END IF;
    PERFORM setval(seqrelid::regclass, 1, false) {_BEGUN};
    {{as_new}};
    {_ANOTHER_KEY};
END $do$"""  # noqa: S608 - put together from constants, and from names that this file and the migrations gave
_GONE = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = %s"


@dataclass(frozen=True)
class Made:
    """What a schema was like when it was new: its shape, which tables had rows, and the statements that bring them back."""

    shape: str
    kept: str
    as_new: str


def look(admin: psycopg.Connection[Any], schema: str) -> Made:
    """Look at a new schema, which is the search path of a connection."""
    kept, first = [], []
    for (table,) in admin.execute(_TABLES.format(schema=schema).encode()).fetchall():
        rows = [row[0] for row in admin.execute(_ROWS.format(table=table).encode()).fetchall()]
        if rows:
            kept.append(f"'{table}'")
            first += [f"DELETE FROM {table}", *rows]  # noqa: S608 - a table of the migrations
    counted = [row[0] for row in admin.execute(_COUNTED.format(schema=schema).encode()).fetchall()]
    return Made(_shape(admin, schema), ", ".join(kept), "; ".join([*first, *counted]))


def _shape(admin: psycopg.Connection[Any], schema: str) -> str:
    row = admin.execute(_SHAPE.format(schema=schema).encode()).fetchone()
    assert row is not None
    return str(row[0])


class Schemas:
    """The spare schemas of one server."""

    def __init__(self) -> None:
        """Begin with none."""
        self._spare: list[tuple[str, Made]] = []

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return bool(self._spare)

    def take(self, admin: psycopg.Connection[Any], schema: str) -> Made | None:
        """Give a spare schema this name, and return what it is like; None if there is none."""
        if not self._spare:
            return None
        name, made = self._spare.pop()
        admin.execute(f"ALTER SCHEMA {name} RENAME TO {schema}".encode())
        return made

    def give_back(self, admin: psycopg.Connection[Any], schema: str, made: Made) -> None:
        """Empty a schema and keep it, or drop it if it is not what it was or gone. Who is still connected is cut off."""
        admin.execute(_GONE, (schema,))
        if _shape(admin, schema) != made.shape:
            admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
            return
        empty = _EMPTY.format(schema=schema, kept=made.kept, as_new=made.as_new)
        admin.execute(f"SET search_path TO {schema}".encode())
        admin.execute(empty.encode(), prepare=False)
        name = f"spare_{secrets.token_hex(6)}"
        admin.execute(f"ALTER SCHEMA {schema} RENAME TO {name}".encode())
        self._spare.append((name, made))

    def drop(self, admin: psycopg.Connection[Any]) -> None:
        """Drop every spare schema."""
        while self._spare:
            admin.execute(f"DROP SCHEMA {self._spare.pop()[0]} CASCADE".encode())
