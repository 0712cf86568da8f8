"""The server's store: lanes, migrations, life locks, and the vacuuming that cannot wait for the server's own.

COMMIT has a thread and a connection, WORK has two of each, READ one; RENEW, `tend`, `prove_death` and `started_at` run
in the caller's thread on connections of their own, one caller at a time. A connection that broke, or that was opened in
another process, is never used again: the next transaction of its lane opens a new one.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from torpor.core.lease import Proof
from torpor.errors import StoreError, StoreUnavailable
from torpor.store import migrate
from torpor.store.lanes import Thread
from torpor.store.life import host_identity, process_gone
from torpor.store.outside import Errands, Needed, Outside
from torpor.store.postgres import life
from torpor.store.postgres.connect import RETRYABLE, parse, translate
from torpor.store.postgres.exchange import BEGIN, BEGIN_READING, Exchange, Seat
from torpor.store.postgres.listener import PostgresListener
from torpor.store.postgres.tx import PostgresTx
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.store.protocol import LifeLock
    from torpor.store.rows import WorkerRow

T = TypeVar("T")

_TRIES = 6
"""How often a transaction that lost a deadlock or a race is run before that is said."""
_WORK_THREADS = 2
_VACUUM_LEASES, _VACUUM_RUNS = 500, 5_000
"""Dead rows from which a table is vacuumed. Without it a claim among 100,000 woken runs took 10 ms instead of 0.4."""
_DEAD_ROWS = """SELECT c.relname, pg_stat_get_dead_tuples(c.oid) FROM pg_class c
    WHERE c.oid IN ('leases'::regclass, 'runs'::regclass)"""
_SCHEMA_NUMBER = "SELECT value FROM meta WHERE key = 'schema'"


class PostgresStore:
    """A database server. Open it with `opening.open_store`; in scripts and tests `PostgresStore(url).migrate()`."""

    kind = "postgres"

    def __init__(self, url: str, *, durable: bool = True, outside: Outside | None = None) -> None:
        """Open nothing yet. `durable=False` lets the server acknowledge before its disk has it, for scratch stores."""
        self.url = url
        self.place = parse(url)._replace(durable=durable)
        self._outside = outside or Outside()
        self._lock = threading.Lock()
        self._seats: dict[tuple[str, int], Seat] = {}
        self._abandoned: list[Seat] = []
        self._listeners: list[PostgresListener] = []
        self._lanes = {
            Lane.COMMIT: Thread("torpor-commit"),
            Lane.WORK: Thread("torpor-work", count=_WORK_THREADS),
            Lane.READ: Thread("torpor-read"),
        }
        self._closed = False

    # connections

    def _seat(self, name: str, thread: int = 0) -> Seat:
        place = name, thread
        with self._lock:
            seat = self._seats.get(place)
        if seat is None or not seat.usable:
            self._abandon(place)
            seat = Seat(self.place)
            with self._lock:
                first = seat if self._closed else self._seats.setdefault(place, seat)
            if first is not seat or self._closed:  # two threads that share a place came at once, or one came too late
                seat.close()
            if self._closed:
                raise StoreUnavailable("this store was closed")
            return first
        return seat

    def _abandon(self, place: tuple[str, int]) -> None:
        with self._lock:
            seat = self._seats.pop(place, None)
            if seat is not None and seat.pid != os.getpid():
                self._abandoned.append(seat)  # kept, so that nothing says goodbye on a socket that another process uses
        if seat is not None:
            seat.close()

    def recover(self, lane: Lane) -> None:
        """Close a lane's idle connections; one that is in use is closed by the thread that uses it, before its next use."""
        with self._lock:
            seats = [seat for (name, _), seat in self._seats.items() if name == lane.name]
        for seat in seats:
            seat.stale = True

    # transactions

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Run `op(tx, ...)` in one transaction, in a thread of the lane."""
        return await self._thread(lane).run(lambda: self._run(lane, op, args, more))

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
        self._thread(lane).then(lambda: self._run(lane, op, args, more), done)

    def transact_now(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Do the same, blocking. RENEW runs in the caller's thread."""
        if lane is Lane.RENEW:
            return self._run(lane, op, args, more)
        return self._thread(lane).run_now(lambda: self._run(lane, op, args, more))

    def _thread(self, lane: Lane) -> Thread:
        return self._lanes[Lane.WORK if lane is Lane.RENEW else lane]

    def _run(self, lane: Lane, op: Callable[..., T], args: tuple[Any, ...], more: dict[str, Any]) -> T:
        errands = Errands(self._outside)
        while True:
            try:
                value = self._once(lane, errands, op, args, more)
            except Needed:
                errands.go()
            else:
                if errands.pending and (gone := errands.settle()):
                    self._run(lane, PostgresTx.drop_leaving, (gone,), {})
                return value

    def _once(
        self, lane: Lane, errands: Errands, op: Callable[..., T], args: tuple[Any, ...], more: dict[str, Any]
    ) -> T:
        for left in reversed(range(_TRIES)):
            seat = self._seat(lane.name, threading.get_ident())
            exchange = Exchange(seat, begin=BEGIN_READING if lane is Lane.READ else BEGIN)
            try:
                tx = PostgresTx(exchange, self.place.schema, errands)
                value = op(tx, *args, **more)
                exchange.commit()
                if seat.carried and tx.hinted:
                    self._say(tx.hinted)
                return value
            except RETRYABLE as error:
                exchange.rollback()
                if left == 0 or exchange.committed_alone:
                    raise translate(error, self.place.words) or error from error
            except psycopg.OperationalError as error:  # of an author's own statement on this connection
                exchange.rollback()
                raise (translate(error, self.place.words) if seat.connection.closed else None) or error from error
            except BaseException as error:
                exchange.rollback()
                if isinstance(error, Needed) and exchange.committed_alone:
                    raise AssertionError("a transaction that was committed alone needs a blob") from error
                raise
        raise AssertionError  # the last try returns or raises

    # hints

    def listen(self, heard: Callable[[str], None], *, without: str = "") -> PostgresListener:
        """Call `heard(topic)` for each hint, from a thread; behind a pooler for those of this store alone."""
        listener = PostgresListener(self.place, heard, without)
        with self._lock:
            self._listeners = [*(one for one in self._listeners if not one.closed), listener]
        return listener

    def _say(self, topics: set[str]) -> None:
        """Hint to this process's own listeners, which hear nothing else behind a pooler."""
        for listener in self._listeners:
            listener.say(topics)

    # life

    def life_lock(self, name: str) -> LifeLock:
        """Take a life lock: an advisory lock on a connection of its own, and a file on this host.

        Whoever does so is about to work, so the lanes connect meanwhile: that is a quarter of the time to its first step.
        """
        del name
        for lane in (*[Lane.WORK] * _WORK_THREADS, Lane.COMMIT):
            self._lanes[lane].put(partial(self._connect, lane))
        return life.PostgresLifeLock(self.place)

    def _connect(self, lane: Lane) -> None:
        with suppress(StoreError):  # said to the first transaction, if it is still so
            self._seat(lane.name, threading.get_ident())

    def prove_death(self, worker: WorkerRow) -> Proof:
        """The file proves that the process is gone, the advisory lock that its connection is."""
        if worker.host == host_identity() and process_gone(worker.life):
            return Proof.PROCESS_GONE
        if not life.proves_by_lock(worker.life):
            return Proof.NONE
        obtained = self._probe(life.OBTAIN, key=life.lock_key(worker.life))[0][0]
        return Proof.LOCK_GONE if obtained else Proof.NONE

    def _probe(self, statement: str, **params: Any) -> list[tuple[Any, ...]]:
        seat = self._seat("probe")
        with seat.lock:
            return seat.ask(statement, **params)

    @property
    def contended(self) -> bool:
        """Never: writers do not take turns here."""
        return False

    @property
    def started_at(self) -> int:
        """Return when the server started, or when this process found it again after losing it: a failover is a start.

        A pooler may lose the server and find another one while our connection stays: it is known by when it started.
        """
        lost = not self._has_seat("probe")
        started, now = self._probe("SELECT torpor_started_at(), torpor_now()")[0]
        if self._started_at is not None and (lost or started != self._started_at):
            self._found_again_at = now
        self._started_at = started
        return max(int(started), self._found_again_at)

    _started_at: int | None = None
    _found_again_at = 0

    def _has_seat(self, name: str) -> bool:
        with self._lock:
            seat = self._seats.get((name, 0))
        return seat is not None and seat.usable

    # the database itself

    def schema(self) -> int:
        """Return the schema's number, 0 for an empty database. Blocking."""
        seat = self._seat("probe")
        with seat.lock:
            return self._schema(seat)

    def _schema(self, seat: Seat) -> int:
        there = seat.ask("SELECT to_regclass(%(name)s) IS NOT NULL", name=f"{self.place.schema}.meta")[0][0]
        rows = seat.ask(_SCHEMA_NUMBER) if there else []
        return int(rows[0][0]) if rows else 0

    def migrate(self) -> int:
        """Bring the schema up; return its number. Several processes may try at once: one does it. Blocking."""
        seat = Seat(self.place)
        name = self.place.schema
        try:
            seat.begin()
            seat.ask("SELECT pg_advisory_xact_lock(%(key)s)", key=life.lock_key(f"migrate {name}"))
            for number, text in migrate.pending(self.kind, self._schema(seat)):
                if not seat.ask("SELECT 1 FROM pg_namespace WHERE nspname = %(name)s", name=name):
                    seat.run(f"CREATE SCHEMA {name}")
                seat.run(text)
                seat.ask(
                    "INSERT INTO meta (key, value) VALUES ('schema', %(number)s)"
                    " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    number=str(number),
                )
            seat.run("COMMIT")
            return self._schema(seat)
        finally:
            seat.close()

    def tend(self) -> None:
        """Vacuum what the hot path updates, when enough of it is dead. A table that another process vacuums is skipped."""
        seat = self._seat("tend")
        with seat.lock:
            limits = {"leases": _VACUUM_LEASES, "runs": _VACUUM_RUNS}
            dead = [table for table, rows in seat.ask(_DEAD_ROWS) if rows >= limits[table]]
            for table in dead:
                seat.run(f"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, SKIP_LOCKED) {self.place.schema}.{table}")

    async def close(self) -> None:
        """End the lanes and close the connections."""
        self.close_now()

    def close_now(self) -> None:
        """End the lanes and close the connections. Blocking."""
        self._closed = True
        for thread in self._lanes.values():
            thread.stop()
        for place in list(self._seats):
            self._abandon(place)
