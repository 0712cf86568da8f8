"""The clock of a world's database, as far ahead of the machine's as the test says.

A server's clock is a function in the world's schema. A file's is its processes' own: those that work on it look up how
far ahead it is whenever they ask for the time.
"""

from __future__ import annotations

import os
from pathlib import Path

from torpor import clock

AHEAD = "TORPOR_CASES_AHEAD"
"""The environment variable with the file that holds the microseconds."""
FUNCTION = """CREATE OR REPLACE FUNCTION torpor_now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {micros} $$"""
_wall = clock.wall


def put(file: Path, micros: int) -> None:
    """Say how far ahead; nobody reads half of it."""
    fresh = file.with_suffix(".new")
    fresh.write_text(str(micros), "ascii")
    fresh.replace(file)


def now(file: Path) -> int:
    """Return the moment of a world's file, in microseconds."""
    return _wall() + int(file.read_text("ascii"))


def follow() -> None:
    """Go by the world's clock in this process, if it has one: before a store is opened."""
    if file := os.environ.get(AHEAD):
        setattr(clock, "wall", lambda: now(Path(file)))  # noqa: B010 - mypy has no word for a function put in another's place
