"""The database of a world, and the links of its processes to it: where transactions, answers and hints go astray.

A transaction leaves its process, reaches the database a moment later (those of one lane in order), happens there in one piece,
and its answer goes back a moment later still. Each of the three may go wrong by itself, which is all that a network, a server
and a disk can do to a client: what was sent may never arrive, may arrive late, may happen without an answer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.faults import OF_CLIENTS, moment_of
from tests.simulation.holding import Listening, Lock
from tests.simulation.process import SECOND, START_AT, Asked, settled
from torpor.core.lease import Proof
from torpor.core.run import State
from torpor.engine import leases
from torpor.engine.commit import commit
from torpor.errors import StoreUnavailable
from torpor.store.protocol import Lane
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.simulation.faults import Budget, Fault
    from tests.simulation.history import History
    from tests.simulation.machines import Machines
    from tests.simulation.process import Process
    from torpor.core.commit import Proposal
    from torpor.store.protocol import LifeLock, Listener, Store, Tx
    from torpor.store.rows import NewRun, RunRow, WorkerRow


class _Killed(BaseException):
    """Leaves a transaction as the death of its process would: rolled back."""


def _watched(tx: Any) -> list[tuple[int, int]]:
    """Return a list that will hold every child this transaction starts, with its parent."""
    born: list[tuple[int, int]] = []
    insert = tx.insert_runs

    def insert_runs(rows: Sequence[NewRun]) -> list[int]:
        made: list[int] = insert(rows)
        born.extend((row.parent, run) for row, run in zip(rows, made, strict=True) if row.parent is not None)
        return made

    tx.insert_runs = insert_runs
    return born


class Database:
    """The one database: its clock, its outages, who listens, who holds which life lock."""

    def __init__(self, store: Store, machines: Machines, history: History, budget: Budget, *, server: bool) -> None:
        """Stand in front of a store whose clock is `now`. `server`: life locks are connections, as on PostgreSQL."""
        self.store = store
        self.machines = machines
        self.history = history
        self.budget = budget
        self.server = server
        self.moved: Callable[[int], None] = lambda _: None
        """Told of the database's time before each transaction, where the clock is the database's own."""
        self.stepped = 0
        self.started_at = 0
        self.down_until = self.full_until = self.deaf_until = 0
        self.hints_lost = 0.0
        self.contended = False
        self.away = 200
        """How long a message is under way, in microseconds, on average."""
        self.cursed: dict[int, int] = {}
        """Runs whose commits fail in the database, and how often still."""
        self.holders: dict[str, Process | None] = {}
        self.links: dict[str, Link] = {}
        self.on_kill: Callable[[Process, str], None] = lambda _process, _why: None
        self.on_copy: Callable[[Process, Fault], None] = lambda _process, _fault: None

    def now(self) -> int:
        """Return the database's clock."""
        return START_AT + self.machines.schedule.now + self.stepped

    def link(self, process: Process) -> Link:
        """Link a process."""
        link = self.links[process.name] = Link(self, process)
        return link

    def run(
        self,
        op: Callable[..., Any],
        args: tuple[Any, ...],
        more: dict[str, Any],
        *,
        spoiled: BaseException | None = None,
    ) -> Any:
        """Do a transaction, here and now; `spoiled` is raised before its COMMIT."""
        hints: list[str] = []
        born: list[tuple[int, int]] = []
        left: list[RunRow] = []

        def within(tx: Tx) -> Any:
            watched = _watched(tx)
            if self.cursed and op is commit:
                self._curse(args[0])
            value = op(tx, *args, **more)
            if spoiled is not None:
                raise spoiled
            if op is leases.claim and value[0]:
                left[:] = tx.list_runs(RunFilter([State.READY], limit=1000))
            born[:] = watched
            said: Iterable[str] = getattr(tx, "hinted" if self.store.kind == "postgres" else "hints")
            hints[:] = sorted(said)
            return value

        if self.machines.schedule.now < self.down_until:
            raise StoreUnavailable("the database does not answer")
        self.moved(self.now())
        value = self.store.transact_now(within, lane=Lane.RENEW)
        self.history.settled(born, left)
        for topic in hints:
            self._hint(topic)
        return value

    def _curse(self, proposals: Sequence[Proposal]) -> None:
        for proposal in proposals:
            if self.cursed.get(proposal.run_id, 0) > 0:
                self.cursed[proposal.run_id] -= 1
                message = f"a bad commit of run {proposal.run_id}"
                raise ValueError(message)

    def look(self, op: Callable[..., Any], *args: Any) -> Any:
        """Do a transaction of the world's own."""
        self.moved(self.now())
        return self.store.transact_now(op, *args, lane=Lane.RENEW)

    def _hint(self, topic: str) -> None:
        chance = self.machines.chance("hints")
        for link in list(self.links.values()):
            if link.process.alive and link.listeners:
                lost = chance.random() < self.hints_lost or self.machines.schedule.now < self.deaf_until
                away = 100 + int(chance.expovariate(1 / 500))
                if not lost:
                    self.machines.schedule.after(away, partial(link.hint, topic))

    def break_connections(self, seconds: float) -> None:
        """Restart: nothing is answered for a while, and what was a connection is one no more."""
        self.down_until = self.machines.schedule.now + int(seconds * SECOND)
        if self.server:
            self.started_at = self.now() + int(seconds * SECOND)
            for name in self.holders:
                self.holders[name] = None


class Link:
    """The database as one process reaches it (store.protocol.Store)."""

    def __init__(self, database: Database, process: Process) -> None:
        """Link a process."""
        self.database = database
        self.process = process
        self.kind, self.url = database.store.kind, database.store.url
        self.listeners: list[Callable[[str], None]] = []
        self.cut_until = 0
        self.who = -1
        """Which worker it is of."""
        self.host = 0
        self.life = ""
        self.answered = True
        """Whether the store answers it: not while an answer is overdue, and not after one that was none."""
        self._free: dict[Lane, int] = {}

    def __getattr__(self, name: str) -> Any:
        """Return what is the store's own."""
        return getattr(self.database.store, name)

    @property
    def contended(self) -> bool:
        """Whether batches are to be short."""
        return self.database.contended

    @property
    def started_at(self) -> int:
        """When the server started."""
        return self.database.started_at

    # transactions

    async def transact(self, op: Callable[..., Any], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> Any:
        """Send a transaction and wait for its answer."""
        answer = self.process.create_future()
        self._send(partial(settled, answer), lane, op, args, more)
        return await answer

    def transact_then(
        self,
        done: Callable[[Any, BaseException | None], None],
        op: Any,
        /,
        *args: Any,
        lane: Lane = Lane.WORK,
        **more: Any,
    ) -> None:
        """Send a transaction."""
        self._send(done, lane, op, args, more)

    def _send(self, done: Callable[..., None], lane: Lane, op: Any, args: Any, more: Any) -> None:
        process, schedule = self.process, self.database.machines.schedule
        number = process.ask(Asked(done))
        if process.follows is not None or process.dead:
            return
        away = 50 + int(process.rng_of_world.expovariate(1 / self.database.away))
        arrives = self._free[lane] = max(schedule.now + away, self._free.get(lane, 0) + 1)
        schedule.after(arrives - schedule.now, partial(self._arrive, number, op, args, more))

    def _arrive(self, number: int, op: Any, args: Any, more: Any) -> None:
        process, database = self.process, self.database
        moment = moment_of(op, args)
        if process.dead:
            if process.rng_of_world.random() < 0.5:  # what was sent may happen after its sender's death
                self._do(op, args, more, moment)
            return
        fault = database.budget.at(moment, self.who) if moment in OF_CLIENTS or process.kind != "people" else None
        if fault is None:
            self._usual(number, op, args, more, moment)
        elif database.machines.schedule.now < max(database.down_until, self.cut_until):
            self._unavailable(number, happened=False)
        else:
            database.budget.spent(fault, moment)
            database.history.note(process.name, f"FAULT {fault}")
            self.answered = False
            _STRIKES[fault.kind](self, fault, number, op, args, more, moment)

    def _usual(self, number: int, op: Any, args: Any, more: Any, moment: str, slow: int = 0) -> None:
        value, error = self._do(op, args, more, moment)
        if error is not None and isinstance(error, StoreUnavailable):
            slow += 1000
        away = slow + 50 + int(self.process.rng_of_world.expovariate(1 / self.database.away))
        self.database.machines.schedule.after(away, partial(self._answer, number, value, error))

    def _answer(self, number: int, value: Any, error: BaseException | None) -> None:
        self.answered = not isinstance(error, StoreUnavailable)
        self.process.tell(number, value, error)

    def _do(
        self, op: Any, args: Any, more: Any, moment: str, spoiled: BaseException | None = None
    ) -> tuple[Any, BaseException | None]:
        database = self.database
        now = database.machines.schedule.now
        try:
            if now < self.cut_until:
                raise StoreUnavailable("the network is cut")
            if now < database.full_until and moment not in {"gate", "news"}:
                raise StoreUnavailable("the disk is full")
            value = database.run(op, args, more, spoiled=spoiled)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            database.history.failed(self.process.name, moment, error)
            return None, error
        database.history.happened(self.process, moment, op, args, value, database.now())
        return value, None

    def _unavailable(self, number: int, *, happened: bool) -> None:
        lost = StoreUnavailable("the connection broke")
        lost.answer_lost = happened
        self.database.machines.schedule.after(2000, partial(self._answer, number, None, lost))

    # what strikes a transaction

    def _kill_before(self, _fault: Fault, _number: int, _op: Any, _args: Any, _more: Any, moment: str) -> None:
        self.database.on_kill(self.process, f"before {moment}")

    def _kill_inside(self, _fault: Fault, _number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        self._do(op, args, more, moment, spoiled=_Killed())
        self.database.on_kill(self.process, f"inside {moment}")

    def _kill_after(self, _fault: Fault, _number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        self._do(op, args, more, moment)
        self.database.on_kill(self.process, f"after {moment}")

    def _lost(self, _fault: Fault, number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        self._do_unheard(op, args, more, moment)
        self._unavailable(number, happened=True)

    def _not_sent(self, _fault: Fault, number: int, _op: Any, _args: Any, _more: Any, _moment: str) -> None:
        self._unavailable(number, happened=False)

    def _lands_late(self, fault: Fault, number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        """Tell that the connection broke, and let the transaction happen later: the server had it."""
        self._unavailable(number, happened=True)
        away = 1000 + int(fault.amount * SECOND / 100)
        self.database.machines.schedule.after(away, partial(self._do_unheard, op, args, more, moment))

    def _do_unheard(self, op: Any, args: Any, more: Any, moment: str) -> None:
        self._do(op, args, more, moment)
        self.database.history.unheard.add(self.database.history.place)

    def _slow(self, fault: Fault, number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        self._usual(number, op, args, more, moment, slow=int(fault.amount * SECOND))

    def _freeze(self, fault: Fault, number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        self.process.freeze()
        self.database.machines.schedule.after(int(fault.amount * SECOND), self.process.thaw)
        self._usual(number, op, args, more, moment)

    def _copy(self, fault: Fault, number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        """Copy the machine: before its answer comes, or just after it came; one of the two has the connections."""
        value, error = self._do(op, args, more, moment)
        if fault.nth % 2:
            self.process.tell(number, value, error)
        else:
            self.database.machines.schedule.after(500, partial(self.process.tell, number, value, error))
        self.database.on_copy(self.process, fault)

    def _bad(self, fault: Fault, number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        """Let one proposal of the batch fail inside the database, whenever it is tried."""
        self.database.cursed = {args[0][len(args[0]) // 2].run_id: 1 + int(fault.amount)}
        self._usual(number, op, args, more, moment)

    def _full(self, fault: Fault, number: int, op: Any, args: Any, more: Any, moment: str) -> None:
        self.database.full_until = self.database.machines.schedule.now + int(fault.amount * SECOND)
        self._usual(number, op, args, more, moment)

    # the rest of a store

    def transact_now(self, op: Callable[..., Any], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> Any:
        """Do a transaction at once, as a thread of the process that blocks."""
        del lane

        def call() -> Any:
            value, error = self._do(op, args, more, moment_of(op, args))
            if error is not None:
                raise error
            return value

        return self.process.at_once(call)

    def listen(self, heard: Callable[[str], None], *, without: str = "") -> Listener:
        """Hear hints, some of them."""
        del without  # one that is not wanted does no harm
        return Listening(self.listeners, heard)

    def hint(self, topic: str) -> None:
        """Tell the process of a hint, and its shadow."""
        self.process.when_awake(partial(self._told, topic))

    def _told(self, topic: str) -> None:
        for process in self.process.both():
            for heard in list(self.database.links[process.name].listeners):
                process.enter(partial(heard, topic))

    def life_lock(self, name: str) -> LifeLock:
        """Take a life lock; a shadow is given its process's."""
        del name
        process = self.process
        if process.follows is not None:
            self.life = self.database.links[process.follows.name].life
        else:
            self.life = f"life-{len(self.database.holders)}"
            self.database.holders[self.life] = process
        return Lock(self.database.machines, self.database.holders, self.life)

    def prove_death(self, worker: WorkerRow) -> Proof:
        """Say what can be known from here: a lock on this host proves more than one that was a connection."""
        holder = self.database.holders.get(worker.life)
        if holder is not None and not holder.dead:
            return Proof.NONE
        owners = [
            link for link in self.database.links.values() if link.life == worker.life and link.process.follows is None
        ]
        if any(link.process.dead and link.host == self.host for link in owners):
            return Proof.PROCESS_GONE  # a copy of it on another host, which has not the lock, may live on
        return Proof.LOCK_GONE if self.database.server else Proof.NONE

    def recover(self, lane: Lane) -> None:
        """Open a new connection: all of them are new here."""

    def tend(self) -> None:
        """Do no housekeeping."""

    async def close(self) -> None:
        """End nothing."""

    def close_now(self) -> None:
        """End nothing."""


_STRIKES: dict[str, Callable[..., None]] = {
    "kill before": Link._kill_before,  # noqa: SLF001 - its own
    "kill inside": Link._kill_inside,  # noqa: SLF001 - its own
    "kill after": Link._kill_after,  # noqa: SLF001 - its own
    "lost": Link._lost,  # noqa: SLF001 - its own
    "not sent": Link._not_sent,  # noqa: SLF001 - its own
    "lands late": Link._lands_late,  # noqa: SLF001 - its own
    "slow answer": Link._slow,  # noqa: SLF001 - its own
    "freeze": Link._freeze,  # noqa: SLF001 - its own
    "copy": Link._copy,  # noqa: SLF001 - its own
    "bad commit": Link._bad,  # noqa: SLF001 - its own
    "disk full": Link._full,  # noqa: SLF001 - its own
}
