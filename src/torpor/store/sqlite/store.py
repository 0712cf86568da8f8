"""The embedded store: one file, or memory for tests; lanes, hints, life lock, migrations, WAL housekeeping.

COMMIT and WORK share one thread and one connection: SQLite has one writer, so a second one would only wait in a worse
place. READ has its own connection and sees a snapshot. RENEW and `tend` have a thread and a connection each, so that a
busy writer thread cannot make a lease lapse. In memory everything shares the one connection there is.
"""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torpor import clock as machine
from torpor.core.lease import Proof
from torpor.errors import StoreError, StoreUnavailable, UsageError
from torpor.store import migrate
from torpor.store.lanes import Thread, Watch
from torpor.store.life import FileLock, host_identity, process_gone
from torpor.store.outside import Errands, Needed, Outside
from torpor.store.protocol import Lane
from torpor.store.sqlite.connect import TABLES, connect, translated
from torpor.store.sqlite.hints import HintListener, Hints
from torpor.store.sqlite.migrating import apply, keep_copy
from torpor.store.sqlite.turnstile import WAIT_SECONDS, Turnstile, no_turn
from torpor.store.sqlite.tx import SqliteTx
from torpor.store.sqlite.wal import lay_out

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from torpor.store.protocol import LifeLock, Listener
    from torpor.store.rows import WorkerRow

T = TypeVar("T")

WAL_SOFT_BYTES = 4 << 20
WAL_HARD_BYTES = 64 << 20
"""Above the soft limit the WAL is copied back beside the writers; above the hard one it is truncated in their queue."""


class _Seat:
    """One connection, its turnstile and the process it was opened in."""

    def __init__(self, path: str, waits: Callable[[], None], *, durable: bool) -> None:
        self.db = connect(path, durable=durable)
        self.turnstile = None if path == ":memory:" else Turnstile(path, waits)
        self.pid = os.getpid()
        self.stale = False

    def turn(self) -> AbstractContextManager[object]:
        return self.turnstile if self.turnstile is not None else nullcontext()

    def close(self) -> None:
        if self.pid == os.getpid():  # a copy of the process must not say goodbye on a shared file
            self.db.close()
            if self.turnstile is not None:
                self.turnstile.close()


class SqliteStore:
    """A database file. Open it with `opening.open_store`; in scripts and tests `SqliteStore(path).migrate()`."""

    kind = "sqlite"

    def __init__(
        self,
        path: str,
        *,
        durable: bool = True,
        clock: Callable[[], int] = machine.wall,
        create: bool = True,
        outside: Outside | None = None,
        lane: type[Thread] = Thread,
    ) -> None:
        """Open nothing yet. `clock` is the database's clock, in microseconds; tests move it by hand.

        Each lane is a `lane`: a thread, or with `lanes.NoThread` whoever asks.
        """
        self.path = path
        self.url = f"sqlite:///{path}"
        self.clock = clock
        self._memory = path == ":memory:"
        self._durable = durable
        self._create = create
        self._outside = outside or Outside()
        self._lock = threading.RLock()
        self._seats: dict[str, _Seat] = {}
        self._abandoned: list[_Seat] = []
        self._writer = lane("torpor-sqlite")
        self._reader = self._writer if self._memory else lane("torpor-sqlite-read")
        self._renewer = self._writer if self._memory else lane("torpor-sqlite-renew")
        self._tender = self._writer if self._memory else lane("torpor-sqlite-tend")
        self._watch: Watch | None = None
        self._hints = Hints(path)
        self._heard: list[Callable[[str], None]] = []

    # connections

    def _seat(self, name: str) -> _Seat:
        with self._lock:
            place = "writer" if self._memory else name
            seat = self._seats.get(place)
            if seat is not None and seat.pid == os.getpid() and not seat.stale:
                return seat
            if seat is not None:
                self._abandoned.append(seat)  # kept: a copy of the process must not close what another one uses
                seat.close()
            if not self._create and not self._memory and not Path(self.path).exists():
                message = f"there is no database at {self.path}"
                raise StoreUnavailable(message, hint="torpor dev APP.py, or torpor worker APP.py, makes one")
            seat = self._seats[place] = _Seat(self.path, self._watched, durable=self._durable)
            return seat

    wait_seconds = WAIT_SECONDS
    """How long a turn to write is waited for."""

    def _watched(self) -> None:
        """See to it that somebody looks how long a turn is waited for: from the first wait on."""
        if self._watch is None or not self._watch.mine:
            with self._lock:
                if self._watch is None or not self._watch.mine:
                    self._watch = Watch(self._look)

    def _look(self) -> None:
        """Answer whoever waits for a turn that does not come."""
        for place, thread in (("writer", self._writer), ("renew", self._renewer), ("tend", self._tender)):
            seat = self._seats.get(place)
            if seat is not None and seat.turnstile is not None:
                give_up = partial(thread.give_up, partial(no_turn, self.path))
                seat.turnstile.give_up_after(self.wait_seconds, give_up)

    def recover(self, lane: Lane) -> None:
        """Let a lane's next transaction open a new connection; in memory there is only one, and it is the database."""
        with self._lock:
            seat = self._seats.get(_PLACES[lane])
            if seat is not None and not self._memory:
                seat.stale = True

    # transactions

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Run `op(tx, ...)` in one transaction, in the lane's thread."""
        return await self._thread(lane).run(lambda: self._run(_PLACES[lane], op, args, more))

    def transact_then(
        self,
        done: Callable[[Any, BaseException | None], None],
        op: Callable[..., Any],
        /,
        *args: Any,
        lane: Lane = Lane.WORK,
        **more: Any,
    ) -> None:
        """Do the same, and call `done(value, error)` from a callback of the running loop."""
        self._thread(lane).then(lambda: self._run(_PLACES[lane], op, args, more), done)

    def transact_now(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Do the same, blocking."""
        return self._thread(lane).run_now(lambda: self._run(_PLACES[lane], op, args, more))

    def _thread(self, lane: Lane) -> Thread:
        """Return a lane's thread: one for each connection, because two threads at once would crash in it."""
        return self._reader if lane is Lane.READ else self._renewer if lane is Lane.RENEW else self._writer

    def _run(self, place: str, op: Callable[..., T], args: tuple[Any, ...], more: dict[str, Any]) -> T:
        errands = Errands(self._outside)
        while True:
            try:
                value = self._once(place, errands, op, args, more)
            except Needed:
                errands.go()
            else:
                if errands.pending and (gone := errands.settle()):
                    self._run(place, SqliteTx.drop_leaving, (gone,), {})
                return value

    def _once(
        self, place: str, errands: Errands, op: Callable[..., T], args: tuple[Any, ...], more: dict[str, Any]
    ) -> T:
        with translated(self.path):
            seat = self._seat(place)
            tx = SqliteTx(seat.db, self.clock, errands)
            reads = place == "reader" and not self._memory
            with nullcontext() if reads else seat.turn():
                seat.db.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
                try:
                    value = op(tx, *args, **more)
                    with translated(self.path, committing=True):
                        seat.db.execute("COMMIT")
                except BaseException:
                    if seat.db.in_transaction:
                        seat.db.execute("ROLLBACK")
                    raise
        if tx.hints:
            self._send(tx.hints)
        return value

    @property
    def contended(self) -> bool:
        """Whether the writer had to wait for its turn last time: others write as well, so keep batches short."""
        seat = self._seats.get("writer")
        return seat is not None and seat.turnstile is not None and seat.turnstile.waited

    # hints

    def _send(self, topics: list[str]) -> None:
        if self._memory:
            for topic in topics:
                for heard in list(self._heard):
                    heard(topic)
        else:
            self._hints.send(topics)

    def listen(self, heard: Callable[[str], None], *, without: str = "") -> Listener:
        """Call `heard(topic)` for each hint, from a thread."""
        if self._memory:
            wanted = partial(_wanted, heard, without) if without else heard
            self._heard.append(wanted)
            return _MemoryListener(self._heard, wanted)
        return HintListener(self.path, heard, without)

    # life

    def life_lock(self, name: str) -> LifeLock:
        """Take a life lock: a locked file on this host. Whoever does so is about to commit: the log is laid out."""
        del name
        if self._durable and not self._memory:
            self._tender.put(self._lay_out)
        return FileLock()

    def _lay_out(self) -> None:
        with suppress(StoreError), translated(self.path):  # said to the first transaction, if it is still so
            seat = self._seat("tend")
            with seat.turn():
                lay_out(seat.db, self.path)

    def prove_death(self, worker: WorkerRow) -> Proof:
        """Only a lock on this host proves anything here."""
        here = worker.host == host_identity()
        return Proof.PROCESS_GONE if here and process_gone(worker.life) else Proof.NONE

    # the file itself

    def migrate(self) -> int:
        """Bring the schema up; return its number. Several processes may try at once: one does it. Blocking."""
        return self._writer.run_now(self._migrate)

    def _migrate(self) -> int:
        with translated(self.path):
            seat = self._seat("writer")
            with seat.turn():
                present = self._schema()
                pending = migrate.pending(self.kind, present)
                if pending and present and not self._memory:
                    keep_copy(seat.db, self.path, present)
                if pending:
                    apply(seat.db, pending)
                return self._schema()

    def schema(self) -> int:
        """Return the schema's number, 0 for an empty file. Blocking.

        Raises StoreCorrupt if the file is damaged at its roots or is no database, UsageError if it is somebody else's.
        """
        return self._writer.run_now(self._schema)

    def _schema(self) -> int:
        with translated(self.path):
            db = self._seat("writer").db
            present = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            number = int(db.execute("PRAGMA user_version").fetchone()[0])  # after: another process may make both now
            for table in present.intersection(TABLES):
                if number == 0:
                    raise UsageError(f"{self.path} has a table {table} that is not torpor's", hint="name another file")
                db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
        return number

    def tend(self) -> None:
        """Copy the WAL back beside the writers; truncate it in their queue when it grew past the hard limit."""
        if self._memory:
            return
        wal = Path(f"{self.path}-wal")
        size = wal.stat().st_size if wal.exists() else 0
        if size < WAL_SOFT_BYTES:
            return
        self._tender.run_now(lambda: self._tend(size))

    def _tend(self, size: int) -> None:
        with translated(self.path):
            seat = self._seat("tend")
            if size < WAL_HARD_BYTES:
                seat.db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                return
            with seat.turn():
                seat.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    @property
    def started_at(self) -> int:
        """Return 0: a file does not start."""
        return 0

    async def close(self) -> None:
        """End the lanes and close the connections."""
        self.close_now()

    def close_now(self) -> None:
        """End the lanes and close the connections. Blocking."""
        lanes = {"writer": self._writer, "reader": self._reader, "renew": self._renewer, "tend": self._tender}
        for thread in lanes.values():
            thread.stop()
        if self._watch is not None:
            self._watch.stop()
        self._hints.close()
        with self._lock:
            for place, seat in self._seats.items():
                if not lanes[place].stuck:  # its thread still waits for the kernel, and lets go of what it gets
                    seat.close()
            self._seats.clear()


_PLACES = {Lane.COMMIT: "writer", Lane.WORK: "writer", Lane.READ: "reader", Lane.RENEW: "renew"}


def _wanted(heard: Callable[[str], None], without: str, topic: str) -> None:
    if not topic.startswith(without):
        heard(topic)


class _MemoryListener:
    """A subscription within this process."""

    def __init__(self, all_heard: list[Callable[[str], None]], heard: Callable[[str], None]) -> None:
        self._all, self._heard = all_heard, heard

    def close(self) -> None:
        """Stop listening."""
        if self._heard in self._all:
            self._all.remove(self._heard)


def integrity(db: sqlite3.Connection) -> str:
    """Return `ok`, or the first complaint of SQLite's own check of the file."""
    return str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
