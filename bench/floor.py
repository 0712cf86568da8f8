"""The floor: what the two databases allow on this machine, without torpor. A step cannot cost less than its share of this.

The work is the least a durable step needs: move a head if the fence agrees, keep 200 bytes beside it, in one transaction.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from torpor.bench.conditions import fdatasync_p50_ms, load1

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 500
LONE_COMMITS = 300
BODY = b'{"i":1,"ok":true,"data":"' + b"x" * 170 + b'"}'


def measured(commit: Callable[[int, int], None], batches: int) -> dict[str, float]:
    """Time `commit(runs, head)`: batches of all runs, then one run alone."""
    began = time.perf_counter()
    for head in range(batches):
        commit(RUNS, head)
    batched = time.perf_counter() - began
    lone = []
    for head in range(batches, batches + LONE_COMMITS):
        at = time.perf_counter()
        commit(1, head)
        lone.append(time.perf_counter() - at)
    return {
        "batched_steps_s": round(RUNS * batches / batched, 1),
        "lone_p50_ms": round(statistics.median(lone) * 1e3, 3),
    }


def on_sqlite(batches: int) -> dict[str, Any]:
    """Measure a file: WAL, synchronous=FULL."""
    with tempfile.TemporaryDirectory(prefix="torpor-bench-floor-") as folder:
        db = sqlite3.connect(Path(folder) / "floor.db", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE heads (run INTEGER PRIMARY KEY, epoch INTEGER, head INTEGER)")
        db.execute("CREATE TABLE kept (run INTEGER, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID")
        db.executemany("INSERT INTO heads VALUES (?, 1, 0)", [(run,) for run in range(RUNS)])

        def commit(runs: int, head: int) -> None:
            db.execute("BEGIN IMMEDIATE")
            moved = db.executemany(
                "UPDATE heads SET head = head + 1 WHERE run = ? AND epoch = 1 AND head = ?",
                [(run, head) for run in range(runs)],
            ).rowcount
            if moved != runs:
                raise AssertionError(moved)
            db.executemany("INSERT INTO kept VALUES (?, ?, ?)", [(run, head + 1, BODY) for run in range(runs)])
            db.execute("COMMIT")

        row = {"w": "floor", "store": "sqlite", **measured(commit, batches)}
        db.close()
        return {**row, "fdatasync_p50_ms": fdatasync_p50_ms(Path(folder)), "load1": load1()}


def on_postgres(url: str, batches: int) -> dict[str, Any]:
    """Measure a server, in temporary tables' place: a schema that is dropped."""
    statement = """WITH asked AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[]) AS t (run, head, body)),
        moved AS (UPDATE torpor_floor.heads h SET head = h.head + 1 FROM asked a
            WHERE h.run = a.run AND h.epoch = 1 AND h.head = a.head RETURNING h.run, h.head, a.body)
        INSERT INTO torpor_floor.kept SELECT run, head, body FROM moved"""
    with psycopg.connect(url, autocommit=True) as db, tempfile.TemporaryDirectory() as folder:
        db.execute("DROP SCHEMA IF EXISTS torpor_floor CASCADE")
        db.execute("CREATE SCHEMA torpor_floor")
        db.execute(
            "CREATE TABLE torpor_floor.heads (run bigint PRIMARY KEY, epoch bigint, head bigint) WITH (fillfactor=50)"
        )
        db.execute("CREATE TABLE torpor_floor.kept (run bigint, seq bigint, body bytea, PRIMARY KEY (run, seq))")
        db.execute("INSERT INTO torpor_floor.heads SELECT n, 1, 0 FROM generate_series(0, %s) AS n", (RUNS - 1,))

        def commit(runs: int, head: int) -> None:
            ids = list(range(runs))
            moved = db.execute(statement, (ids, [head] * runs, [BODY] * runs), prepare=True, binary=True).rowcount
            if moved != runs:
                raise AssertionError(moved)

        row = {"w": "floor", "store": "postgres", **measured(commit, batches)}
        db.execute("DROP SCHEMA torpor_floor CASCADE")
        return {**row, "fdatasync_p50_ms": fdatasync_p50_ms(Path(folder)), "load1": load1()}
