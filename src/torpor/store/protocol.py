"""What the engine asks of a store: a transaction, hints, and proof that a process lives. A new verb is a design question.

Verbs work on batches and are synchronous: an operation of the engine is a plain function `op(tx, ...)` that a store runs
inside one transaction, in a thread of its own (`Store.transact`). On PostgreSQL rows of several runs are locked in the
order of the run's number, a run's row before its lease, its waits and its signals.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from torpor.core.commit import Blob, NewMessage, NewRow
    from torpor.core.journal import Stored
    from torpor.core.lease import Lease, Proof
    from torpor.core.run import Flag, State
    from torpor.core.wait import Signal
    from torpor.store.rows import (
        Append,
        Claim,
        Claimed,
        Kept,
        Leave,
        MessageRow,
        NewRun,
        NewSignal,
        NewWorker,
        ProgramRow,
        RunChange,
        RunFilter,
        RunRow,
        StateRow,
        WaitRow,
        WorkerRow,
    )

T = TypeVar("T")


class Lane(Enum):
    """Which of a store's threads runs a transaction, so that one never waits behind the other."""

    COMMIT = auto()
    """The committer's own: batches of commits, nothing else."""
    WORK = auto()
    """Everything else that writes."""
    READ = auto()
    """Queries for people. May be a moment old, never decides."""
    RENEW = auto()
    """The renewal thread's own connection: called with `transact_now` from that thread."""


class Tx(Protocol):
    """One transaction."""

    def now(self) -> int:
        """Return the database's clock, read once in this transaction, in microseconds."""

    def alone(self) -> None:
        """Let the next verb that is answered be committed at once, together with hints and other unanswered verbs before it.

        To be said before the first answered verb of a transaction: it may then cost one round trip in all. What comes
        after it is another transaction, and what `op` raises later does not take it back.
        """

    # programs and tenants
    def intern_programs(self, programs: Sequence[tuple[str, int, str]]) -> list[int]:
        """Return the number of each (name, version, source); new ones are written, a changed source is updated."""

    def programs(self) -> list[ProgramRow]:
        """Return all programs."""

    def intern_tenants(self, names: Sequence[str]) -> list[int]:
        """Return the number of each tenant, writing new ones."""

    # runs
    def insert_runs(self, runs: Sequence[NewRun]) -> list[int]:
        """Insert ready runs with their first state (entry 0, turn 1), and return their numbers."""

    def claim_keys(self, keys: Sequence[tuple[bytes, int]]) -> dict[bytes, int]:
        """Bind each (digest, run) unless the digest is bound; return the run that each digest is bound to now."""

    def drop_runs(self, ids: Sequence[int]) -> None:
        """Remove runs that were inserted in this transaction and lost their key to another."""

    def get_runs(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, RunRow]:
        """Return runs by number; with `lock`, locked in order of number until the transaction ends."""

    def list_runs(self, wanted: RunFilter) -> list[RunRow]:
        """Return runs for people, newest first."""

    def count_runs(self, states: Sequence[State], *, most: int) -> dict[State, int]:
        """Count runs by state, each count capped at `most`."""

    def change_runs(self, changes: Sequence[RunChange]) -> None:
        """Apply changes to runs this transaction has locked."""

    # the hot path
    def claim(self, wanted: Claim) -> list[Claimed]:
        """Make ready runs running, with epoch + 1 and a lease, and return everything a worker needs, in one round trip.

        By priority, then by due time, of one tenant, skipping what others have locked.
        """

    def append(self, rows: Sequence[Append], *, lease_micros: int) -> dict[int, Flag]:
        """Append fenced entries, move heads, extend leases. Return the flags of the runs that were not refused (G1)."""

    def leave(self, rows: Sequence[Leave]) -> dict[int, State]:
        """Append fenced entries and end the stretch. Return the state of the runs that were not refused (G1, G7)."""

    def fence_order(self, leaving: Sequence[int], going: Sequence[int]) -> None:
        """Lock the runs in `leaving`, then the leases in `going`, each in order: before `append` and `leave` together."""

    # what travels in a commit
    def put_states(self, states: Sequence[StateRow]) -> None:
        """Overwrite checkpoints."""

    def put_waits(self, waits: Sequence[WaitRow]) -> None:
        """Write waits into their slots."""

    def end_waits(self, slots: Sequence[tuple[int, int]]) -> None:
        """Mark (run, slot) as over."""

    def take_signals(self, signals: Sequence[tuple[int, int]]) -> None:
        """Consume (run, seq): gone if it has no key, emptied if it has one, so that a repetition is still known."""

    def add_rows(self, rows: Sequence[tuple[int, NewRow]]) -> None:
        """Append elements of `Rows` fields."""

    def get_rows(self, run: int, field: str, *, after: int, limit: int) -> list[bytes]:
        """Return elements of a `Rows` field whose number is >= `after`, in order."""

    def add_messages(self, messages: Sequence[tuple[int, NewMessage]]) -> None:
        """Put messages into the outbox."""

    def put_blobs(self, blobs: Sequence[tuple[int, Blob]]) -> None:
        """Write packed blobs, each once, and that this run names them. Outside the database, if the store was told so."""

    def get_blobs(self, digests: Sequence[bytes], *, later: bool = False) -> dict[bytes, bytes]:
        """Return packed blobs, or their excuses (`blobs.packing.excuse`); those that were never written are not in it.

        With `later` what lies outside the database is filled in after the commit: for an operation that only passes it
        on. Without, the operation is run again once it is here (`store.outside`).
        """

    def drop_leaving(self, digests: Sequence[bytes]) -> None:
        """Forget blobs that a sweep has deleted outside the database."""

    # journal
    def journal(self, run: int, *, after: int = 0, limit: int = 10_000) -> list[Stored]:
        """Return entries above `after`, in order."""

    def journal_tail(self, run: int, *, limit: int) -> list[Stored]:
        """Return the newest entries, in order."""

    def entries(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Stored]:
        """Return entries by (run, seq)."""

    def states(self, ids: Sequence[int]) -> dict[int, StateRow]:
        """Return current checkpoints."""

    def open_intents(self, ids: Sequence[int]) -> dict[int, list[Stored]]:
        """Return the intents after each run's checkpoint that have no outcome."""

    # waits and signals
    def waits(self, ids: Sequence[int], *, over: bool = False) -> list[WaitRow]:
        """Return the waits of runs in the order of their entries, answered ones included; with `over` ended ones too."""

    def people_waits(self, *, limit: int) -> list[WaitRow]:
        """Return open waits for people, oldest first."""

    def answer_wait(self, run: int, slot: int, seq: int, answer: bytes) -> bool:
        """Write a decision unless there is one (G10). False: somebody was first, or the wait is over."""

    def add_signals(self, signals: Sequence[NewSignal]) -> list[Kept]:
        """Keep signals, count each run's `inbox` up and make waiting runs ready; say of each signal what became of it.

        A duplicate key counts nothing up and wakes nobody. Agreement lies on the run's row, so that a signal and a
        suspend can never both believe that the other will see to it (G7, `core.run.parked_as`).
        """

    def unread(self, ids: Sequence[int]) -> dict[int, list[Signal]]:
        """Return the unread signals of runs, in order."""

    def outbox(self, *, limit: int) -> list[MessageRow]:
        """Return the oldest messages, locked, skipping what others have locked."""

    def drop_messages(self, ids: Sequence[int]) -> None:
        """Remove delivered messages."""

    # leases and workers
    def leases(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, Lease]:
        """Return leases by run."""

    def leases_of(self, worker: int, *, limit: int) -> list[Lease]:
        """Return leases of a worker."""

    def expired_leases(self, *, before: int, limit: int) -> list[Lease]:
        """Return leases that ended before a moment."""

    def all_leases(self, *, limit: int) -> list[Lease]:
        """Return leases for people."""

    def renew(self, worker: int, leases: Sequence[tuple[int, int, int]], *, lease_micros: int) -> list[Lease]:
        """Extend (run, token, epoch) leases of a worker in one statement; return those that exist. Never makes one."""

    def flag_leases(self, ids: Sequence[int], flags: Flag) -> None:
        """Add flags to the leases of runs."""

    def drop_leases(self, ids: Sequence[int]) -> None:
        """End leases that this transaction has locked."""

    def put_worker(self, worker: NewWorker) -> int:
        """Write a worker and return its number."""

    def see_worker(self, worker: int) -> None:
        """Say that a worker is alive now."""

    def workers(self) -> list[WorkerRow]:
        """Return all workers that were not dropped."""

    def drop_workers(self, ids: Sequence[int]) -> None:
        """Forget workers that are gone and hold no lease."""

    # sweeps
    def due_runs(self, *, before: int, limit: int) -> list[int]:
        """Return waiting runs whose due time has come, earliest first."""

    def next_due(self) -> int | None:
        """Return the least due time of a waiting run."""

    def sweep_blobs(self, *, before: int, limit: int) -> int:
        """Remove blobs written before a moment that no run names; return how many. Those outside go after the commit."""

    # the store itself
    def get_meta(self, key: str) -> str | None:
        """Return a fact about the store."""

    def put_meta(self, key: str, value: str) -> None:
        """Write a fact about the store."""

    def hint(self, topic: str) -> None:
        """Tell every process that listens, once this transaction has committed. May be lost, may be doubled."""

    def lend(self) -> AbstractContextManager[Any]:
        """Lend the database's connection to a transactional effect for its own writes in this transaction (G6).

        Whoever borrows it can end no transaction, attach no database and touch no table of torpor, and has 2 seconds.
        """


class LifeLock(Protocol):
    """A worker's proof of life. Held from start to death; whoever obtains it knows what `core.lease.Proof` says."""

    name: str

    def held(self) -> bool:
        """Prove by a round trip on the lock's own connection that this process still holds it. Blocking."""

    def release(self) -> None:
        """Let go, at the end of a drain."""


class Listener(Protocol):
    """A subscription to hints, closed by `close`."""

    def close(self) -> None:
        """Stop listening."""


class Store(Protocol):
    """One database."""

    url: str
    kind: str
    """`sqlite` or `postgres`."""

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Run `op(tx, *args, **more)` in one transaction, in a thread of the store, and return what it returns.

        Raises StoreUnavailable if the database cannot be reached or its disk is full, StoreCorrupt, SchemaMismatch.
        What `op` raises rolls back and is raised here.
        """

    def transact_then(
        self,
        done: Callable[[Any, BaseException | None], None],
        op: Callable[..., Any],
        /,
        *args: Any,
        lane: Lane = Lane.WORK,
        **more: Any,
    ) -> None:
        """Do the same and call `done(value, error)` from a plain callback of the running loop: the committer's way.

        It saves a task and three turns of the loop, and a flow's own loop must not be driven from inside a task.
        """

    def transact_now(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """The same for a caller that is a plain thread or a script without a loop. Blocking."""

    def listen(self, heard: Callable[[str], None]) -> Listener:
        """Call `heard(topic)` from a thread for each hint, also for those of this process."""

    def life_lock(self, name: str) -> LifeLock:
        """Take a worker's life lock under a fresh name."""

    def prove_death(self, worker: WorkerRow) -> Proof:
        """Try to obtain another worker's life lock. Blocking, never waits."""

    def recover(self, lane: Lane) -> None:
        """Drop a lane's connection, so that its next transaction opens a new one (after a lost answer, after a copy)."""

    def tend(self) -> None:
        """Housekeeping that must not wait for the database's own: checkpoint the WAL, vacuum the hot tables. Blocking."""

    def schema(self) -> int:
        """Return the number of the store's schema, 0 if it is empty. Blocking."""

    def migrate(self) -> int:
        """Bring the schema up to what this torpor needs, once for all who try; return its number. Blocking."""

    @property
    def started_at(self) -> int:
        """Return when the database server started, in its own microseconds (0: a file does not start)."""

    async def close(self) -> None:
        """End all lanes."""

    def close_now(self) -> None:
        """End all lanes. Blocking."""
