"""Numbered migrations: `sql/<database>/0001_initial.sql` and so on, each applied once, in order, in one transaction."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from torpor.errors import SchemaMismatch


@cache
def migrations(kind: str) -> tuple[tuple[int, str], ...]:
    """Return (number, SQL text) of each migration of a database, in order."""
    folder = files("torpor.store") / "sql" / kind
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name.partition("_")[0]), (folder / name).read_text("utf-8")) for name in names)


def newest(kind: str) -> int:
    """Return the schema number this torpor needs."""
    return migrations(kind)[-1][0]


def pending(kind: str, present: int) -> list[tuple[int, str]]:
    """Return what must be applied to a store whose schema is `present`.

    Raises SchemaMismatch if it is newer than this torpor.
    """
    if present > newest(kind):
        message = f"the store's schema is {present}, this torpor knows up to {newest(kind)}"
        raise SchemaMismatch(message, hint="install a newer torpor; nothing was changed")
    return [(number, text) for number, text in migrations(kind) if number > present]


def refuse_old(kind: str, present: int, where: str) -> None:
    """Raise SchemaMismatch unless a store's schema is exactly what this torpor needs."""
    if pending(kind, present):
        message = f"the store's schema is {present}, this torpor needs {newest(kind)}: {where}"
        copy = "a copy is kept beside it; " if kind == "sqlite" else ""
        raise SchemaMismatch(message, hint=f"torpor migrate   ({copy}sleeping runs are untouched)")
