"""Reading a database whole, in the same form from each kind: tables, rows in order, columns by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[..., list[list[tuple[Any, ...]]]]

Tables = dict[str, list[str]]
Snapshot = dict[str, list[dict[str, Any]]]
NUMBERED = ("runs", "outbox", "budgets", "events", "lines", "schedules", "tenants", "programs", "workers")
"""Tables whose rows get their number from the database."""
_NO_ROWS = frozenset({"meta", "moment", "sqlite_sequence"})
_BYTES = frozenset({"body", "digest", "answer", "members"})


def tables_of(ask: Ask, schema: str = "") -> Tables:
    """Return the columns of each table, both by name."""
    of_file = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    of_server = f"SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = '{schema}'"  # noqa: S608
    tables: Tables = {}
    for table, column in sorted(ask(of_server if schema else of_file)[0]):
        if table not in _NO_ROWS:
            tables.setdefault(table, []).append(column)
    return tables


def read_file(ask: Ask, tables: Tables) -> tuple[Snapshot, dict[str, int]]:
    """Read an SQLite database."""
    numbers = "SELECT name, seq FROM sqlite_sequence"
    pruned = "SELECT 'runs', CAST(value AS INTEGER) FROM meta WHERE key = 'last_run'"
    whole = [f"SELECT {', '.join(columns)} FROM {table}" for table, columns in tables.items()]  # noqa: S608
    *rows, never_again, runs = ask(*whole, numbers, pruned)
    snapshot = {
        table: [dict(zip(columns, row, strict=True)) for row in sorted(found, key=repr)]
        for (table, columns), found in zip(tables.items(), rows, strict=True)
    }
    last = {table: max((row["id"] for row in snapshot[table]), default=0) for table in NUMBERED}
    last.update({name: max(last[name], seq) for name, seq in (*never_again, *runs) if name in last})
    return snapshot, last


def read_server(ask: Ask, tables: Tables) -> tuple[Snapshot, dict[str, int]]:
    """Read a server's database, in one statement."""
    parts = [
        f"(SELECT json_agg(json_build_array({', '.join(columns)})) FROM {table})"  # noqa: S608 - our own names
        for table, columns in tables.items()
    ]
    last = "(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {}_id_seq)"
    parts += [last.format(table) for table in NUMBERED]
    row = ask(f"SELECT {', '.join(parts)}")[0][0]
    snapshot: Snapshot = {}
    for (table, columns), found in zip(tables.items(), row, strict=False):
        rows = [tuple(map(_value, columns, one)) for one in found or ()]
        snapshot[table] = [dict(zip(columns, one, strict=True)) for one in sorted(rows, key=repr)]
    return snapshot, dict(zip(NUMBERED, row[len(tables) :], strict=True))


def _value(column: str, value: Any) -> Any:
    return bytes.fromhex(value[2:]) if column in _BYTES and value is not None else value
