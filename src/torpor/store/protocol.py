"""What the engine asks of a store: a transaction, hints, and proof that a process lives. A new verb is a design question.

Verbs work on batches and are synchronous: an operation of the engine is a plain function `op(tx, ...)` that a store runs
inside one transaction, in a thread of its own (`Store.transact`). On PostgreSQL rows of several runs are locked in the
order of the run's number, a run's row before its lease, its waits and its signals.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torpor.store.verbs.budgets import BudgetVerbs
from torpor.store.verbs.cancels import CancelVerbs
from torpor.store.verbs.events import EventVerbs
from torpor.store.verbs.families import FamilyVerbs
from torpor.store.verbs.history import HistoryVerbs, RetentionVerbs
from torpor.store.verbs.hot import CommitVerbs, HotVerbs
from torpor.store.verbs.journal import JournalVerbs
from torpor.store.verbs.leases import LeaseVerbs
from torpor.store.verbs.lines import LineVerbs
from torpor.store.verbs.marks import MarkVerbs
from torpor.store.verbs.runs import RunVerbs
from torpor.store.verbs.schedules import ScheduleVerbs
from torpor.store.verbs.streams import StreamVerbs
from torpor.store.verbs.waits import WaitVerbs
from torpor.store.verbs.whole import WholeVerbs

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.core.lease import Proof
    from torpor.store.rows import WorkerRow

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


class Tx(
    RunVerbs,
    HotVerbs,
    CommitVerbs,
    JournalVerbs,
    WaitVerbs,
    EventVerbs,
    LeaseVerbs,
    FamilyVerbs,
    LineVerbs,
    CancelVerbs,
    ScheduleVerbs,
    StreamVerbs,
    BudgetVerbs,
    HistoryVerbs,
    RetentionVerbs,
    MarkVerbs,
    WholeVerbs,
    Protocol,
):
    """One transaction."""


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

    def listen(self, heard: Callable[[str], None], *, without: str = "") -> Listener:
        """Call `heard(topic)` from a thread for each hint, also for those of this process.

        `without`: not for topics that begin so, which this listener need not even be woken for.
        """

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
    def contended(self) -> bool:
        """Whether other processes were found writing when this one wanted to: then short transactions are kind to them."""

    @property
    def started_at(self) -> int:
        """Return when the database server started, in its own microseconds (0: a file does not start)."""

    async def close(self) -> None:
        """End all lanes."""

    def close_now(self) -> None:
        """End all lanes. Blocking."""
