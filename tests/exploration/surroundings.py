"""What happens around the processes: copies, commits that arrive late, the clock, sweeps, people, a failover."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.exploration.executor import open_intent
from tests.exploration.world import COPY, IN_FLIGHT, W1, Move, lease_row
from torpor.core.run import State

if TYPE_CHECKING:
    from tests.exploration.executor import Executor
    from tests.exploration.rules import Rules
    from tests.exploration.world import Configuration, Faults, Process, World


class Surroundings:
    """All moves that no process makes, under some rules."""

    def __init__(self, configuration: Configuration, rules: Rules, executor: Executor) -> None:
        """Take what the processes have as well."""
        self.configuration = configuration
        self.rules = rules
        self.executor = executor

    def moves(self, world: World) -> list[Move]:
        """Return everything that can happen next without a process."""
        found = self._copy(world) + self._delayed(world) + self._clock(world)
        return found + self._sweeps(world) + self._outside(world) + self._failover(world)

    # ---- copies, late commits, time

    def _copy(self, world: World) -> list[Move]:
        process, left = world.processes[W1], world.left
        if not left.copy or not process.active or world.processes[COPY].active:
            return []
        where = "gated" if process.phase == "gated" else f"{process.phase} {process.place}"
        twin = process._replace(phase="recover", stage=0) if process.phase == "sent" else process
        after = world._replace(
            processes=world.but(COPY, twin),
            truth=world.truth._replace(copied_at="gated" if where == "gated" else "before"),
            left=left._replace(copy=left.copy - 1),
        )
        return [Move(f"W1 is copied at {where}", after, fault=True)]

    def _delayed(self, world: World) -> list[Move]:
        if world.delayed is None:
            return []
        index, process = world.delayed
        verdict, after, broken = self.executor.commit(world, index, process)
        return [Move(f"the late {process.place} arrives: {verdict}", after._replace(delayed=None), broken)]

    def _clock(self, world: World) -> list[Move]:
        found: list[Move] = []
        held, left, run = world.held, world.left, world.run
        if held is not None and not held.expired:
            driven = any(process.active and process.token == held.token for process in world.processes)
            if left.expiry or not driven:
                after = left._replace(expiry=left.expiry - 1) if driven else left
                expired = world._replace(held=held._replace(expired=True), left=after)
                found.append(Move("the lease's time is over", expired, fault=driven))
        awaited = run.due_at is not None or any(process.place == "timer" for process in world.processes)
        if awaited and not world.late:
            found.append(Move("the timer falls due", world._replace(late=True)))
        if left.clock_back and (world.late or (held is not None and held.expired)):
            back = None if held is None else held._replace(expired=False)
            after_back = world._replace(late=False, held=back, left=left._replace(clock_back=left.clock_back - 1))
            found.append(Move("the store's clock steps back", after_back, fault=True))
        if world.quiet:
            found.append(Move("the first lease time is over", world._replace(quiet=False)))
        return found

    # ---- sweeps

    def _sweeps(self, world: World) -> list[Move]:
        reapable, fires = self.executor.reapable(world), self.executor.fires(world)
        found: list[Move] = []
        if not self.configuration.two_phases:
            if reapable:
                found.append(self._reap(world))
            if fires:
                found.append(Move("the waker wakes the run", self._woken(world)))
            return found
        if world.sweep is None:
            if reapable and world.held is not None:
                found.append(Move("the reaper selects the lease", world._replace(sweep=("reap", world.held.epoch))))
            if fires:
                found.append(Move("the waker selects the run", world._replace(sweep=("fire", 0))))
            return found
        kind, epoch = world.sweep
        world = world._replace(sweep=None)
        if kind == "reap" and self.rules.still_reapable(lease_row(world), selected=epoch, reapable=reapable):
            return [self._reap(world)]
        if kind == "fire" and self.rules.still_due(fires):
            return [Move("the waker wakes the run", self._woken(world))]
        return [Move("the sweep looks again and passes by", world)]

    def _woken(self, world: World) -> World:
        return world._replace(run=world.run._replace(state=State.READY))

    def _reap(self, world: World) -> Move:
        held = world.held
        broken: list[str] = []
        if held is not None and not held.expired and not held.dead:
            holder = world.processes[held.holder]
            living = holder.active and holder.token == held.token
            if living and open_intent(world.run):
                broken.append("G4 a living holder loses its effect before its time is over")
            if living and world.quiet:
                broken.append("G20 a failover becomes a mass reap")
        after = world._replace(run=world.run._replace(state=State.READY), held=None)
        return Move("the reaper frees the run", after, tuple(broken))

    # ---- people and other runs

    def _outside(self, world: World) -> list[Move]:
        run, left = world.run, world.left
        if run.state.final:
            return []
        found: list[Move] = []
        if left.signal:
            row = (run.inbox + 1, world.late)
            told = run._replace(state=self.executor.woken(run), inbox=run.inbox + 1, unread=(*run.unread, row))
            after = world._replace(run=told, left=left._replace(signal=left.signal - 1))
            found.append(Move("a signal is sent", after, fault=True))
        if left.cancel:
            told = run._replace(cancel=True)
            if run.state is State.WAITING:
                told = told._replace(state=self.rules.parked_as(inbox=run.inbox, seen=run.inbox, cancel=True))
            after = world._replace(run=told, left=left._replace(cancel=left.cancel - 1))
            found.append(Move("cancel is acknowledged", after, fault=True))
        if run.answer == "open":
            found += self._person(world)
        return found

    def _person(self, world: World) -> list[Move]:
        """A person looks outside and tells the truth; without a warning, "do it again" is free."""
        settled = partial(self._settled, world)
        if world.truth.starts:
            return [settled("happened", world.left)]
        intent = next(epoch for epoch, code in reversed(world.run.journal) if code == "intent")
        gone = self.executor.holder_gone(world, intent)
        if world.left.again and self.rules.may_do_again(holder_gone=gone):
            return [settled("again", world.left._replace(again=world.left.again - 1))]
        return [settled("fail", world.left)]

    def _settled(self, world: World, answer: str, left: Faults) -> Move:
        run = world.run
        told = run._replace(state=self.executor.woken(run), inbox=run.inbox + 1, answer=answer)
        return Move(f"a person says: {answer}", world._replace(run=told, left=left))

    # ---- a database that lost its last commits

    def _failover(self, world: World) -> list[Move]:
        left = world.left
        if not left.failover:
            return []
        less = left._replace(failover=left.failover - 1)
        if world.backup is None:
            behind = world._replace(backup=(world.run, world.held), left=less)
            return [Move("the replica falls behind", behind, fault=True)]
        run, held = world.backup
        first, copy, second = (self._cut_off(process) for process in world.processes)
        after = world._replace(
            run=run,
            held=held,
            processes=(first, copy, second),
            backup=None,
            left=less,
            quiet=True,
            truth=world.truth._replace(believed=()),
        )
        return [Move("the replica takes over without the last commits", after, fault=True)]

    @staticmethod
    def _cut_off(process: Process) -> Process:
        if not process.active:
            return process
        broken = process.phase in IN_FLIGHT
        return process._replace(
            phase="recover" if broken else process.phase, stage=0, verdict="" if broken else process.verdict, lock=False
        )
