"""Copies of a parked run: the rows that torpor wrote for it, again and again under other numbers.

A million runs are parked by copying one that torpor parked itself, because driving each would take minutes. Which tables
have rows of a run is asked, not known: whatever torpor writes for a parked run is copied. Moments are moved on by a
little with each copy, as those of runs that were parked one after another are; nothing else differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_CHUNK = 10_000
_STEP_MICROS = 100
"""So much later than the one before each copy says it was parked."""
_MOMENTS = frozenset({"at", "created_at", "due_at", "answered_at"})


class Table(NamedTuple):
    """A table with rows of runs: the column with a run's number, and all columns."""

    name: str
    number: str
    columns: tuple[str, ...]

    def copied(self, moved: str) -> str:
        """Return what is selected for the copy whose distance from the model is `moved`."""
        return ", ".join(
            f"m.{column} + {moved}"
            if column == self.number
            else f"m.{column} + {moved} * {_STEP_MICROS}"
            if column in _MOMENTS
            else f"m.{column}"
            for column in self.columns
        )


class Copying(Protocol):
    """A connection that copies rows; neither the worker's nor the store's."""

    def tables(self) -> list[Table]:
        """Return the tables that have rows of runs: `runs`, and all that have a `run_id`."""

    def rows(self, table: Table, run: int) -> list[tuple[Any, ...]]:
        """Return a run's rows of a table, in the order of all columns."""

    def copy(self, tables: Sequence[Table], model: int, first: int, count: int) -> None:
        """Copy the model's rows of these tables for runs `first` .. `first + count - 1`, in one transaction."""

    def settle(self) -> None:
        """Do what the database would do by itself within a minute: statistics, vacuum; bring a log back into the file."""

    def close(self) -> None:
        """Close the connection."""


class FileCopying:
    """Copies in an SQLite file."""

    def __init__(self, path: str) -> None:
        """Open a connection of its own."""
        from torpor.store.sqlite.connect import connect

        self._db = connect(path, durable=True)

    def tables(self) -> list[Table]:
        """Return the tables with rows of runs."""
        names = [row[0] for row in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: tuple(row[1] for row in self._db.execute(f"PRAGMA table_info({name})")) for name in names}
        return _of_runs(found)

    def rows(self, table: Table, run: int) -> list[tuple[Any, ...]]:
        """Return a run's rows."""
        statement = f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {table.number} = ?"  # noqa: S608 - names from the schema itself
        return self._db.execute(statement, (run,)).fetchall()

    def copy(self, tables: Sequence[Table], model: int, first: int, count: int) -> None:
        """Copy."""
        counting = "WITH RECURSIVE moved (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM moved WHERE n < ?2)"
        self._db.execute("BEGIN IMMEDIATE")
        for table in tables:
            into = f"INSERT INTO {table.name} ({', '.join(table.columns)}) SELECT {table.copied('moved.n')}"
            statement = f"{counting} {into} FROM moved CROSS JOIN {table.name} m WHERE m.{table.number} = ?3"
            self._db.execute(statement, (first - model, first + count - 1 - model, model))
        self._db.execute("COMMIT")

    def settle(self) -> None:
        """Bring the log back into the file."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


class SchemaCopying:
    """Copies in a schema of PostgreSQL."""

    def __init__(self, url: str, schema: str) -> None:
        """Open a connection of its own."""
        from torpor.store.postgres.connect import parse
        from torpor.store.postgres.exchange import Seat

        self._seat = Seat(parse(url))
        self._schema = schema
        self._copied: list[str] = []

    def tables(self) -> list[Table]:
        """Return the tables with rows of runs."""
        found: dict[str, tuple[str, ...]] = {}
        statement = """SELECT table_name::text, column_name::text FROM information_schema.columns
            WHERE table_schema = %(schema)s ORDER BY table_name, ordinal_position"""
        for name, column in self._seat.ask(statement, schema=self._schema):
            found[name] = (*found.get(name, ()), column)
        return _of_runs(found)

    def rows(self, table: Table, run: int) -> list[tuple[Any, ...]]:
        """Return a run's rows."""
        statement = f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {table.number} = %(run)s"  # noqa: S608 - names from the schema itself
        return self._seat.ask(statement, run=run)

    def copy(self, tables: Sequence[Table], model: int, first: int, count: int) -> None:
        """Copy."""
        self._copied = [table.name for table in tables]
        self._seat.begin()
        for table in tables:
            self._seat.ask(
                f"""INSERT INTO {table.name} ({", ".join(table.columns)}) SELECT {table.copied("moved.n")}
                FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS moved(n),
                LATERAL (SELECT * FROM {table.name} WHERE {table.number} = %(model)s + 0 * moved.n) m""",  # noqa: S608 - the same
                first=first - model,
                last=first + count - 1 - model,
                model=model,
            )
        self._seat.ask("SELECT setval('runs_id_seq', %(last)s::bigint)", last=first + count - 1)
        self._seat.run("COMMIT")

    def settle(self) -> None:
        """Vacuum and analyze the tables that were written, as autovacuum does after a while."""
        for name in self._copied or ["runs", "states", "journal", "waits"]:
            self._seat.run(f"VACUUM (ANALYZE) {self._schema}.{name}")

    def close(self) -> None:
        """Close the connection."""
        self._seat.close()


def _of_runs(columns: dict[str, tuple[str, ...]]) -> list[Table]:
    of_runs = [Table(name, "run_id", names) for name, names in columns.items() if "run_id" in names]
    return [Table("runs", "id", columns["runs"]), *of_runs]


def copy_run(to: Copying, model: int, first: int, count: int, tell: Callable[[int], None]) -> None:
    """Copy a parked run as runs `first` and on. `tell` hears now and then how many there are."""
    tables = [table for table in to.tables() if to.rows(table, model)]
    for done in range(0, count, _CHUNK):
        some = min(_CHUNK, count - done)
        to.copy(tables, model, first + done, some)
        tell(done + some)
