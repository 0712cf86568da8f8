"""Bringing a file's schema up: a copy of it first, then everything in one transaction, so that a kill leaves it whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence


def apply(db: sqlite3.Connection, pending: Sequence[tuple[int, str]]) -> None:
    """Apply (number, SQL text) of each migration and write the last number, all or nothing."""
    text = "\n".join(text for _, text in pending)
    try:
        db.executescript(f"BEGIN IMMEDIATE;\n{text}\nPRAGMA user_version = {pending[-1][0]};\nCOMMIT;")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def keep_copy(db: sqlite3.Connection, path: str, present: int) -> Path:
    """Write the whole file beside itself, as it is before a migration, and return where.

    It gets its name only once it is whole and on the disk: a copy that a kill cut short must not look like one.
    """
    copy = Path(f"{path}.schema-{present}")
    count = 1
    while copy.exists():
        count += 1
        copy = Path(f"{path}.schema-{present}.{count}")
    unfinished = Path(f"{path}.copying")
    unfinished.unlink(missing_ok=True)
    db.execute("VACUUM INTO ?", (str(unfinished),))
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.rename(copy)
    return copy
