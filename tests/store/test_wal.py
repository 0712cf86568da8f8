"""The write-ahead log's file is laid out for whoever is about to commit, and nobody reads what lies behind its end."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from torpor.store.sqlite import SqliteStore
from torpor.store.sqlite.connect import connect
from torpor.store.sqlite.wal import PAGES, lay_out

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _made(path: Path) -> sqlite3.Connection:
    db = connect(str(path))
    db.execute("CREATE TABLE found (n INTEGER PRIMARY KEY, pad TEXT)")
    db.execute("INSERT INTO found VALUES (1, 'before')")
    return db


def _read_after_a_crash(path: Path) -> list[int]:
    """Read the files as they lie on the disk, as a process does that opens them after all others died."""
    copy = path.with_name("copy.db")
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [n for (n,) in db.execute("SELECT n FROM found ORDER BY n")]


def test_commits_before_and_after_are_all_recovered(tmp_path: Path) -> None:
    """What was in the log stays, and what comes is written over the zeros, with and without a restart of the log."""
    path = tmp_path / "one.db"
    with closing(_made(path)) as db:
        lay_out(db, str(path))
        size = (tmp_path / "one.db-wal").stat().st_size
        assert size == 32 + PAGES * (24 + 4096)
        assert _read_after_a_crash(path) == [1]
        db.execute("INSERT INTO found VALUES (2, 'after')")
        assert _read_after_a_crash(path) == [1, 2]
        assert (tmp_path / "one.db-wal").stat().st_size == size
        for n in range(3, 2 * PAGES):  # past the log's end and from the front again
            db.execute("INSERT INTO found VALUES (?, 'more')", (n,))
        assert _read_after_a_crash(path) == list(range(1, 2 * PAGES))


def test_an_empty_log_is_laid_out(tmp_path: Path) -> None:
    """A log without a header counts as empty; the first commit writes one over the zeros."""
    path = tmp_path / "one.db"
    _made(path).close()
    with closing(connect(str(path))) as db:
        lay_out(db, str(path))
        assert _read_after_a_crash(path) == [1]
        db.execute("INSERT INTO found VALUES (2, 'after')")
        assert _read_after_a_crash(path) == [1, 2]


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a matter of speed: whoever commits next must not find the last room taken by zeros."""
    path = tmp_path / "one.db"
    real = os.pwrite

    def full(log: int, piece: bytes, place: int) -> int:
        if place > 2 << 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(log, piece, place)

    with closing(_made(path)) as db:
        size = (tmp_path / "one.db-wal").stat().st_size
        monkeypatch.setattr(os, "pwrite", full)
        lay_out(db, str(path))
        assert (tmp_path / "one.db-wal").stat().st_size == size
        assert not db.in_transaction
        db.execute("INSERT INTO found VALUES (2, 'after')")
    assert _read(path) == [1, 2]


def _read(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [n for (n,) in db.execute("SELECT n FROM found ORDER BY n")]


def test_a_worker_s_life_begins_with_it(tmp_path: Path) -> None:
    """Whoever takes a life lock is about to commit; whoever only looks is spared the four megabytes."""
    path = tmp_path / "one.db"
    store = SqliteStore(str(path))
    try:
        store.migrate()
        log = tmp_path / "one.db-wal"
        assert log.stat().st_size < PAGES * 4096
        life = store.life_lock("w")
        store._tender.run_now(lambda: None)  # noqa: SLF001 - its calls run in order: this one after the other
        assert log.stat().st_size == 32 + PAGES * (24 + 4096)
        life.release()
    finally:
        store.close_now()
