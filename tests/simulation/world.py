"""A world: workers, wakers, people and one database, everything that happens to them out of one seed.

It lives through two times. At first the plan's faults strike, workers die and are replaced, people do what they wanted. Then it
is calm: whoever was frozen goes on, the network is whole, and everything must come to rest: every run final, or waiting for
something with a name (G13). What must have been true all along is asked afterwards (`invariants`).
"""

from __future__ import annotations

import gc
import logging
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation import invariants, programs, shut
from tests.simulation.facts import booked, collect, make_table
from tests.simulation.faults import Budget
from tests.simulation.history import History
from tests.simulation.link import Database
from tests.simulation.machines import Machines
from tests.simulation.members import Here, Renewing, wind
from tests.simulation.outside import Outside
from tests.simulation.people import People
from tests.simulation.process import SECOND, Process
from tests.simulation.vigil import Vigil
from torpor import rouse
from torpor.clock import micros
from torpor.core.run import State
from torpor.engine import runs
from torpor.store.lanes import NoThread
from torpor.store.rows import RunFilter
from torpor.store.sqlite import SqliteStore
from torpor.testing.showing import lines
from torpor.testing.sweeping import going_on, next_due
from torpor.waker import Waker
from torpor.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.faults import Fault
    from tests.simulation.link import Link
    from tests.simulation.plans import Plan
    from torpor.store.protocol import Store, Tx

TROUBLE_SECONDS = 26.0
"""When it becomes calm."""
REST_SECONDS = 400.0
"""How long the calm may last before everything rests."""
MOST_EVENTS = 400_000


@dataclass
class Outcome:
    """What became of a world."""

    seed: int
    broken: list[str]
    digest: str
    struck: list[tuple[str, str]]
    """Kind and moment of each fault that struck."""
    seconds: float
    events: int
    runs: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    copies: int = 0


class World:
    """One world."""

    def __init__(self, plan: Plan, store: Store | None = None, moved: Callable[[int], None] | None = None) -> None:
        """Make it. Without a store it has SQLite in memory; `moved` moves the clock of another one."""
        self.plan = plan
        self.machines = Machines(plan.seed)
        self.states: dict[str, int] = {}
        self.history = History(self.machines)
        self.budget = Budget(plan.faults)
        self._own = store is None
        inner = SqliteStore(":memory:", clock=self._now, lane=NoThread) if store is None else store
        self.database = Database(inner, self.machines, self.history, self.budget, server=plan.server)
        if moved is not None:
            self.database.moved = moved
        self.database.hints_lost, self.database.contended = plan.hints_lost, plan.contended
        self.database.away = plan.away
        self.database.on_kill, self.database.on_copy = self._killed, self._copied
        self.vigil = Vigil(self.machines, self.database)
        self.outside = Outside(self.machines, plan.slow)
        self.outside.strike, self.outside.die = self._acting, lambda process: self._killed(process, "after it acted")
        self.workers: dict[str, Worker] = {}
        self.calm = False
        self.mends: list[Callable[[], None]] = []
        """What ends faults that have no end of their own."""
        self._count = 0
        self.broken: list[str] = []
        self.rested_at = 0

    # life

    def live(self) -> Outcome:
        """Let it live, and say what became of it."""
        began = time.process_time()
        programs.OUTSIDE.outside = self.outside
        loud = logging.getLogger("torpor")
        level, enabled = loud.level, gc.isenabled()
        loud.setLevel(logging.CRITICAL + 1)
        gc.disable()
        try:
            with self.machines.installed():
                try:
                    self._begin()
                    self._pass()
                    self._judge()
                except Exception as error:  # noqa: BLE001 - the next seed has its turn all the same
                    self.broken.append(f"crash: {type(error).__name__}: {error}")
                self.machines.close()
        finally:
            loud.setLevel(level)
            if enabled:
                gc.enable()
            if self._own:
                self.database.store.close_now()
        struck = [(fault.kind, moment) for fault, moment in self.budget.struck]
        return Outcome(
            self.plan.seed,
            self.broken,
            self.history.digest,
            struck,
            time.process_time() - began,
            self.machines.schedule.events,
            self.states,
            self.history.lines,
            len(self.history.copies),
        )

    def _now(self) -> int:
        return self.database.now()

    def _begin(self) -> None:
        if self._own:
            self.database.store.migrate()
        flows = programs.app.flows.values()
        named = [(flow.name, version, flow.source) for flow in flows for version in flow.versions]
        self.database.look(runs.register, named)
        self.database.look(make_table)
        for number in range(self.plan.workers):
            self._after(0.01 + 0.5 * number, self._start_worker)
        for _ in range(self.plan.wakers):
            self._after(0.02, self._start_waker)
        people = self.machines.start("people", "people")
        self.people_link = self.database.link(people)
        self.people = people.enter(lambda: People(self))
        people.enter(self.people.begin)
        for fault in self.budget.timed:
            self._after(fault.nth / 10, partial(self._strike, fault))
        self._after(TROUBLE_SECONDS, self._calm_down)

    def _after(self, seconds: float, call: Callable[[], object]) -> None:
        self.machines.schedule.after(micros(seconds), call)

    def _pass(self) -> None:
        schedule = self.machines.schedule
        look_at = micros(TROUBLE_SECONDS) + SECOND
        until = micros(TROUBLE_SECONDS + REST_SECONDS)
        while schedule.step():
            if self.calm and schedule.now >= look_at:
                look_at = schedule.now + SECOND
                if self._rests():
                    return
            if schedule.now > until or schedule.events > MOST_EVENTS:
                self.broken.append(f"G13: after {schedule.now / SECOND:.0f} s it does not rest: {self._restless()}")
                return

    # workers and wakers

    def _start_worker(self) -> None:
        number, self._count = self._count, self._count + 1
        copied = any(fault.kind == "copy" and fault.who == number for fault in self.plan.faults)
        process = self.machines.start(f"w{number}", "worker", shadowed=copied)
        for one in reversed(process.both()):
            link = self.database.link(one)
            link.who, link.host = number, number % self.plan.hosts
            one.enter(partial(self._work, one, link))
        self.history.note(process.name, "starts")

    def _work(self, process: Process, link: Link) -> None:
        lease, places = self.plan.lease_seconds, self.plan.places
        worker = Worker(
            link, programs.app.flows, name=process.name, lease_seconds=lease, drain_seconds=4.0, concurrency=places
        )
        worker.renewing = Renewing
        worker.clocks, worker.registry = self.machines.clocks(process), rouse.Registry()
        worker.shut_seconds = shut.SHUT_SECONDS
        worker._threads = Here(1, "none")  # noqa: SLF001 - nothing runs in a thread here
        self.workers[process.name] = worker
        process.create_task(self._run(process, worker.run()))

    async def _run(self, process: Process, work: Any) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - a process that fell over is one that ended
            if process.dead:
                return
            self.history.note(process.name, f"fell over: {type(error).__name__} {error}")
            process.complaints += [] if type(error).__name__ == "StoreUnavailable" else [f"fell over: {error!r}"]
        if process.follows is None:
            self._killed(process, "ended")

    def _start_waker(self) -> None:
        number, self._count = self._count, self._count + 1
        process = self.machines.start(f"k{number}", "waker")
        link = self.database.link(process)
        link.host = number % self.plan.hosts
        clocks = self.machines.clocks(process)
        waker = process.enter(
            lambda: Waker(link, lease_seconds=self.plan.lease_seconds, clocks=clocks, registry=rouse.Registry())
        )
        process.enter(lambda: process.create_task(self._run(process, waker.run())))

    def _killed(self, process: Process, why: str) -> None:
        """End a process, and start another one in its place after a while."""
        if process.dead:
            return
        self.history.note(process.name, f"dies: {why}")
        self.history.deaths[process.name] = self.history.place
        process.kill()
        for name, holder in self.database.holders.items():
            if holder is process:
                self.database.holders[name] = None
        if "~" in process.name:
            return  # a copy: the original is replaced
        chance = self.machines.chance("replace")
        start = self._start_worker if process.kind == "worker" else self._start_waker
        self._after(0.3 + chance.random() * chance.choice((1, 8)), start)

    def _copied(self, process: Process, fault: Fault) -> None:
        """Copy a worker's machine; one of the two keeps the life lock."""
        if process.shadow is None:
            return
        copy = process.part()
        copy.name = f"{process.name}~copy"
        worker = self.workers[copy.name] = self.workers[f"{process.name}'"]
        link: Any = worker.store
        self.database.links[copy.name] = link
        del self.database.links[f"{process.name}'"]
        link.host += 100
        life = self.database.links[process.name].life
        if fault.amount > 4 and self.database.holders.get(life) is process:
            self.database.holders[life] = copy
        self.history.copies.append((self.history.place, process.name, copy.name))
        renewing: Any = copy
        if hasattr(renewing, "renewals"):
            wind(copy)

    # faults

    def _acting(self, process: Process) -> str:
        """Let a fault strike a process that begins an effect."""
        fault = self.budget.at("acting", self.database.links[process.name].who)
        if fault is None:
            return ""
        self.budget.spent(fault, "acting")
        self.history.note(process.name, f"FAULT {fault}")
        match fault.kind:
            case "kill before":
                self._killed(process, "as it began to act")
                return "before"
            case "kill after":
                return "after"
            case "freeze":
                process.freeze()
                self.machines.schedule.after(micros(fault.amount), process.thaw)
            case _:
                self.machines.schedule.after(1, partial(self._copied, process, fault))
        return ""

    def _struck(self, fault: Fault, name: str) -> None:
        self.budget.spent(fault, "time")
        self.history.note(name, f"FAULT {fault}")

    def _strike(self, fault: Fault) -> None:
        living = [p for p in self.machines.processes if p.alive and p.kind != "people" and not p.frozen]
        if self.calm or not living:
            return
        process = living[fault.who % len(living)]
        if fault.kind in {"clock step", "restart", "deaf"}:
            self._struck(fault, "database")
            self._strike_database(fault)
        elif fault.kind not in {"drain", "callback"} or process.name in self.workers:
            self._struck(fault, process.name)
            self._strike_process(fault, process)

    def _strike_database(self, fault: Fault) -> None:
        length = micros(fault.amount)
        if fault.kind == "clock step":
            self.database.stepped += length * (-1 if fault.who == 0 else 1)
        elif fault.kind == "restart":
            self.database.break_connections(min(fault.amount, 5.0))
        else:
            self.database.deaf_until = self.machines.schedule.now + length

    def _strike_process(self, fault: Fault, process: Process) -> None:
        length, link = micros(fault.amount), self.database.links[process.name]
        match fault.kind:
            case "kill":
                self._killed(process, "killed")
            case "freeze long":
                process.freeze()
                self.machines.schedule.after(length, process.thaw)
            case "suspend":
                process.freeze()
                self.machines.schedule.after(length, partial(process.thaw, clock_stood_still=length))
            case "host step":
                for one in process.both():
                    one.stepped += length * (-1 if fault.who == 0 else 1)
            case "callback":
                shut.strike(self, fault, process)
            case "cut":
                link.cut_until = self.machines.schedule.now + length
                if self.database.server and link.life:
                    self.database.holders[link.life] = None
            case _:
                process.enter(self.workers[process.name].stop)

    def _calm_down(self) -> None:
        """End every fault: from here on nothing goes wrong."""
        self.calm = True
        self.history.note("world", "is calm")
        self.budget.end()
        for mend in self.mends:
            mend()
        database = self.database
        database.down_until = database.full_until = database.deaf_until = 0
        database.cursed.clear()
        for link in list(database.links.values()):
            link.cut_until = 0
            if link.process.frozen and not link.process.dead:
                link.process.thaw()

    # rest

    def _rests(self) -> bool:
        if self.people.busy:
            return False
        return bool(self.database.look(self._at_rest))

    def _at_rest(self, tx: Tx) -> bool:
        failed = tx.count_runs([State.FAILED], most=1)[State.FAILED]
        if failed or going_on(tx) or next_due(tx) is not None:
            return False
        return not tx.people_waits(limit=1)

    def _restless(self) -> str:
        def said(tx: Tx) -> str:
            found = []
            for row in tx.list_runs(RunFilter(limit=200)):
                if not row.state.final or row.state is State.FAILED:
                    open_waits = [f"{w.kind.word} {w.title}" for w in tx.waits([row.id])]
                    found.append(f"run {row.id} {row.state.word} {open_waits} {lines(tx, row.id)[-1:]}")
            return "; ".join(found)

        return f"{self.people.busy} people; {self.database.look(said)}"

    def may_still_start(self, run: int) -> bool:
        """Whether a worker is alive that once held a run and does not know yet that it lost it."""
        held = {one.process for one in self.history.taken if one.run == run}
        for process in self.machines.processes:
            worker = self.workers.get(process.name)
            here = worker is not None and process.alive and (process.name in held or process.name.split("~")[0] in held)
            if worker is not None and here and (process.frozen or run in worker.executors or worker.outside.acting):
                return True
        return False

    # judgement

    def _judge(self) -> None:
        self.states = self.database.look(_count_states)
        self.facts = collect(self)
        self.facts.booked = self.database.look(booked)
        self.broken += self.people.troubles
        for process in self.machines.processes:
            self.broken += [f"{process.name}: {complaint}" for complaint in process.complaints]
        for check in invariants.ALL:
            self.broken += check(self)


def _count_states(tx: Tx) -> dict[str, int]:
    rows = tx.list_runs(RunFilter(limit=1000))
    return {state.word: sum(row.state is state for row in rows) for state in State}
