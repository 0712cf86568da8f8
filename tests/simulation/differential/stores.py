"""Two stores in step: each operation is done on both, and both must say and hold the same.

What a database is free to choose is made equal before each operation: the next numbers of rows (PostgreSQL's sequences have
gaps after a conflict or an error, SQLite's do not), and once the key of callback tokens. Everything else must be equal:
replies, errors with text and hint, the topics that are hinted, and each column of each table.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.differential.reading import Snapshot, Tables, read_file, read_server, tables_of
from tests.stores import Moment, Place, raw
from torpor.errors import TorporError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torpor.store.protocol import Tx


class Said(NamedTuple):
    """What an operation gave back: a reply, or the error it was refused with; and which topics it hinted."""

    reply: Any = None
    error: TorporError | None = None
    hints: frozenset[str] = frozenset()

    @property
    def plain(self) -> object:
        """What can be compared: errors do not equal each other by themselves."""
        return _plain(self.reply), _plain(self.error), self.hints


def _plain(value: object) -> object:
    if isinstance(value, TorporError):
        return type(value).__name__, value.message, value.hint
    return value


class Differs(AssertionError):
    """Two that should agree do not."""


class Side:
    """One database: a store on it, and a way to read it whole."""

    def __init__(self, place: Place) -> None:
        """Open it."""
        self.place, self.store = place, place.open()
        self.name = self.store.kind
        self.tables: Tables = tables_of(self.ask) if not place.on_server else tables_of(self.ask, place.schema)

    def do(self, op: Callable[..., Any], args: Sequence[Any], more: dict[str, Any]) -> Said:
        """Do an operation in a transaction of its own."""

        def work(tx: Tx) -> Said:
            reply = op(tx, *args, **more)
            hints: Any = getattr(tx, "hinted", None) or getattr(tx, "hints", ())
            return Said(reply, None, frozenset(hints))

        try:
            return self.store.transact_now(work)
        except TorporError as error:
            return Said(error=error)

    def ask(self, *statements: str) -> list[list[tuple[Any, ...]]]:
        """Read, or write, with a database's own words."""
        if self.place.on_server:
            with self.place.admin.pipeline():
                asked = [self.place.admin.execute(one.encode()) for one in statements]
                return [one.fetchall() if "SELECT" in text else [] for one, text in zip(asked, statements, strict=True)]
        answers: list[list[tuple[Any, ...]]] = self.store.transact_now(
            lambda tx: [raw(tx).execute(one).fetchall() for one in statements]
        )
        return answers

    def snapshot(self) -> tuple[Snapshot, dict[str, int]]:
        """Return every row of every table, in order, and the last number that each table gave out."""
        return read_server(self.ask, self.tables) if self.place.on_server else read_file(self.ask, self.tables)

    def empty(self) -> None:
        """Remove every row."""
        self.ask(
            *(f"DELETE FROM {table}" for table in self.tables),  # noqa: S608 - names of our own tables
            *([] if self.place.on_server else ["DELETE FROM sqlite_sequence"]),
            "UPDATE meta SET value = 'one key for both' WHERE key = 'token_key'",
            "DELETE FROM meta WHERE key = 'last_run' OR key LIKE '%walked%'",
            "INSERT INTO tenants (id, name) VALUES (1, 'default')",
        )


class Stores:
    """One, or several databases of different kinds, that are driven in step by one clock."""

    def __init__(self, kinds: Sequence[str], folder: Path, server_url: Callable[[str], str]) -> None:
        """Make the databases: kinds as `tests.stores` has them."""
        self.moment = Moment()
        self._open = ExitStack()
        self.sides: list[Side] = []
        for kind in kinds:
            place = Place(kind, folder, self.moment, server_url(kind) if kind not in {"memory", "sqlite"} else "")
            self._open.callback(place.close)
            self.sides.append(Side(place))
        for side in self.sides:
            if side.tables != self.sides[0].tables:
                raise Differs(f"other columns: {side.name} {side.tables}, {self.sides[0].name} {self.sides[0].tables}")

    def close(self) -> None:
        """Drop the databases."""
        self._open.close()

    def empty(self) -> None:
        """Remove every row, so that another history can begin."""
        for side in self.sides:
            side.empty()
        self.snapshot()

    def do(self, op: Callable[..., Any], *args: Any, **more: Any) -> Said:
        """Do an operation on every side. Raises Differs if they do not say the same."""
        said = [side.do(op, args, more) for side in self.sides]
        for side, one in zip(self.sides, said, strict=True):
            if one.plain != said[0].plain:
                raise Differs(f"{self.sides[0].name} says {said[0].plain}, {side.name} says {one.plain}")
        return said[0]

    def snapshot(self) -> Snapshot:
        """Return every row of every table. Raises Differs if the sides do not hold the same.

        Whoever gave out more numbers than the first side is put back to where that stands.
        """
        first, *others = self.sides
        held, numbers = first.snapshot()
        for side in others:
            other, last = side.snapshot()
            if other != held:
                raise Differs(
                    f"{first.name} and {side.name} hold different rows:\n{_difference(first, held, side, other)}"
                )
            wrong = {table: n for table, n in numbers.items() if last[table] != n}
            places = [f"setval('{table}_id_seq', {max(n, 1)}, {n > 0})" for table, n in wrong.items()]
            if places:
                side.ask(f"SELECT {', '.join(places)}")
        return held


def _difference(first: Side, mine: Snapshot, side: Side, theirs: Snapshot) -> str:
    lines = []
    for table in mine:
        here, there = ({json.dumps(row, default=repr) for row in rows[table]} for rows in (mine, theirs))
        lines += [f"  {table}, only {first.name}: {row}" for row in sorted(here - there)]
        lines += [f"  {table}, only {side.name}: {row}" for row in sorted(there - here)]
    return "\n".join(lines)
