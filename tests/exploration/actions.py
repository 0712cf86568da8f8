"""What a process can do next. Everything else that can happen is in `surroundings.py`.

A move is one transaction, or one act of one process between two of them. `fault` marks what nobody may count on when
liveness is asked: faults, and whatever people and other runs do or leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.exploration.executor import Executor, lives_in, stopped
from tests.exploration.rules import Recovery
from tests.exploration.surroundings import Surroundings
from tests.exploration.world import COPY, IDLE, IN_FLIGHT, NAMES, Held, Move, Process, World, lease_row
from torpor.core.effect import Gate
from torpor.core.lease import LostAnswer
from torpor.core.run import Flag, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.exploration.rules import Rules
    from tests.exploration.world import Configuration


class Actions:
    """All moves of the small world under some rules."""

    def __init__(self, configuration: Configuration, rules: Rules) -> None:
        """Take the configuration and the rules."""
        self.configuration = configuration
        self.rules = rules
        self.executor = Executor(configuration, rules)
        self._surroundings = Surroundings(configuration, rules, self.executor)
        self._by_phase: dict[str, Callable[[World, int, Process], list[Move]]] = {
            "none": lambda *_: [],
            "idle": self._claim,
            "at": self._at,
            "sent": self._sent,
            "answer": self._answer,
            "recover": self._recover,
            "reopen": self._recover,
            "gated": self._start,
        }

    def moves(self, world: World) -> list[Move]:
        """Return everything that can happen next."""
        found: list[Move] = []
        for index, process in enumerate(world.processes):
            found += self._by_phase[process.phase](world, index, process)
            if process.active:
                found += self._renew(world, index, process)
                found += self._crash(world, index, process)
        return found + self._surroundings.moves(world)

    # ---- a process

    def _claim(self, world: World, index: int, _: Process) -> list[Move]:
        run = world.run
        if run.state is not State.READY or not self.rules.may_follow(run.state, State.RUNNING):
            return []
        epoch, token = self.rules.next_epoch(run.epoch), world.truth.claims + 1
        claimed = run._replace(state=State.RUNNING, epoch=epoch)
        truth = world.truth._replace(claims=token)
        after = world._replace(run=claimed, held=Held(token, epoch, index), truth=truth)
        process = Process("at", token, epoch, len(run.journal), seen=run.inbox)
        broken: list[str] = []
        if self.rules.cancelled_at_claim(Flag.CANCEL if run.cancel else Flag.NONE):
            process = process._replace(place="cancel")
        else:
            process = self.executor.next_place(after, index, process)
            if run.cancel and process.phase == "gated":
                broken.append("G12 an effect begins after cancel")
            if self.executor.program.stand(run.journal).diverged:
                broken.append("G3 the replay of unchanged code diverges")
        return [Move(f"{NAMES[index]} claims", after._replace(processes=after.but(index, process)), tuple(broken))]

    def _stop(self, world: World, index: int, why: str, broken: tuple[str, ...] = ()) -> Move:
        return Move(f"{NAMES[index]} {why}", world._replace(processes=world.but(index, stopped(index))), broken)

    def _at(self, world: World, index: int, process: Process) -> list[Move]:
        name = NAMES[index]
        if not (self.executor.usable(process, index) or self.configuration.blind_copies):
            after = process._replace(phase="reopen", stage=0)
            found = [Move(f"{name} needs a connection of its own", world._replace(processes=world.but(index, after)))]
        elif process.place == "effect":
            found = [self._gate(world, index, process)]
        elif self._whole(world):
            found = [self._commits_at_once(world, index, process)]
        else:
            sent = process._replace(phase="sent", opened_in=lives_in(index))
            found = [Move(f"{name} sends {process.place}", world._replace(processes=world.but(index, sent)))]
        if not process.lock:
            found.append(self._stop(world, index, "notices that its life lock is gone"))
        return found

    def _whole(self, world: World) -> bool:
        """Whether sending, committing and reading the answer may be one move: nothing can come between that matters."""
        left = world.left
        return not (left.lost or left.copy or left.failover or world.backup or self.configuration.renewals)

    def _commits_at_once(self, world: World, index: int, process: Process) -> Move:
        verdict, after, broken = self.executor.commit(world, index, process)
        answered = self._read_answer(after, index, process._replace(verdict=verdict))
        label = f"{NAMES[index]} commits {process.place}: {verdict}"
        return Move(label, answered.world, broken + answered.broken)

    def _gate(self, world: World, index: int, process: Process) -> Move:
        row = lease_row(world)
        locked = not self.executor.safety.asks_life_lock or self.executor.life_lock_held(process, index)
        said = self.rules.gate(
            row,
            token=process.token,
            epoch=process.epoch,
            head=process.head,
            same_incarnation=True,  # the worst case: a copy that `rouse` did not notice
            life_lock_held=locked,
        )
        if said is Gate.STOP:
            return self._stop(world, index, "is stopped by the gate")
        if said is Gate.CANCELLED:
            after = process._replace(place="cancel")
            return Move(
                f"{NAMES[index]} hears of cancel at the gate", world._replace(processes=world.but(index, after))
            )
        broken: list[str] = []
        if world.run.cancel:
            broken.append("G12 an effect passes the gate after cancel")
        if world.held is None or world.held.token != process.token:
            broken.append("G2 an effect passes the gate after its lease was lost")
        after = process._replace(phase="gated")
        processes = world.but(index, after)
        return Move(f"{NAMES[index]} passes the gate", world._replace(processes=processes), tuple(broken))

    def _start(self, world: World, index: int, process: Process) -> list[Move]:
        truth, broken = self.executor.start(world.truth, process.epoch)
        after = process._replace(phase="at", place="outcome")
        processes = world.but(index, after)
        label = f"{NAMES[index]} starts the effect"
        return [Move(label, world._replace(truth=truth, processes=processes), broken)]

    def _sent(self, world: World, index: int, process: Process) -> list[Move]:
        verdict, after, broken = self.executor.commit(world, index, process)
        answered = process._replace(phase="answer", verdict=verdict)
        label = f"{NAMES[index]}'s {process.place} reaches the store: {verdict}"
        found = [Move(label, after._replace(processes=after.but(index, answered)), broken)]
        if world.left.lost:
            left = world.left._replace(lost=world.left.lost - 1)
            processes = world.but(index, process._replace(phase="recover", stage=0))
            cut = world._replace(processes=processes, left=left)
            found.append(Move(f"{NAMES[index]}'s connection breaks, {process.place} never arrives", cut, fault=True))
            if left.delayed and world.delayed is None:
                cut = cut._replace(delayed=(index, process), left=left._replace(delayed=left.delayed - 1))
                found.append(Move(f"{NAMES[index]}'s connection breaks, {process.place} is under way", cut, fault=True))
        return found

    def _answer(self, world: World, index: int, process: Process) -> list[Move]:
        if not self.executor.usable(process, index):
            after = process._replace(phase="recover", stage=0, verdict="")
            label = f"{NAMES[index]} does not use a connection of another incarnation"
            return [Move(label, world._replace(processes=world.but(index, after)))]
        found = [self._read_answer(world, index, process)]
        if world.left.lost:
            left = world.left._replace(lost=world.left.lost - 1)
            after = process._replace(phase="recover", stage=0, verdict="")
            lost = world._replace(processes=world.but(index, after), left=left)
            found.append(Move(f"{NAMES[index]}'s answer to {process.place} is lost", lost, fault=True))
        return found

    def _read_answer(self, world: World, index: int, process: Process) -> Move:
        label = f"{NAMES[index]} reads {process.verdict}"
        if process.verdict == "lost":
            return self._stop(world, index, "reads LeaseLost and stops")
        if process.verdict == "cancelled":
            after = process._replace(phase="at", place="cancel", verdict="")
            return Move(label, world._replace(processes=world.but(index, after)))
        if process.verdict == "early":
            after = process._replace(phase="at", verdict="")
            return Move(label, world._replace(processes=world.but(index, after)))
        after_world, broken = self.executor.go_on(world, index, process, cancel=process.verdict == "ok+cancel")
        return Move(label, after_world, broken)

    def _recover(self, world: World, index: int, process: Process) -> list[Move]:
        name, acts = NAMES[index], self.rules.recovery
        act = acts[process.stage]
        if act is Recovery.READ and process.phase == "reopen":
            after = process._replace(phase="at", stage=0)
            return [Move(f"{name} goes on", world._replace(processes=world.but(index, after)))]
        if act is Recovery.OPEN:
            after = process._replace(stage=process.stage + 1, opened_in=lives_in(index))
            return [Move(f"{name} opens a connection", world._replace(processes=world.but(index, after)))]
        if act is Recovery.PROVE:
            if not self.executor.life_lock_held(process, index):
                return [self._stop(world, index, "cannot prove its life lock and stops")]
            after = process._replace(stage=process.stage + 1)
            return [Move(f"{name} proves its life lock", world._replace(processes=world.but(index, after)))]
        if not self.executor.usable(process, index):
            after = process._replace(stage=0)
            label = f"{name} does not use a connection of another incarnation"
            return [Move(label, world._replace(processes=world.but(index, after)))]
        return [self._read_back(world, index, process)]

    def _read_back(self, world: World, index: int, process: Process) -> Move:
        said = self.executor.read_back(world, process)
        if said is LostAnswer.LEASE_LOST:
            return self._stop(world, index, "reads back: LeaseLost")
        if said is LostAnswer.SEND_AGAIN:
            again = process._replace(phase="sent", stage=0)
            return Move(f"{NAMES[index]} reads back: send again", world._replace(processes=world.but(index, again)))
        after, broken = self.executor.go_on(world, index, process, cancel=False)
        mine = world.held is not None and world.held.token == process.token
        if after.processes[index].active and not mine:
            broken += ("G1 goes on although the lease it reads is not its own",)
        return Move(f"{NAMES[index]} reads back: it happened", after, broken)

    def _renew(self, world: World, index: int, process: Process) -> list[Move]:
        held = world.held
        if not self.configuration.renewals or process.phase == "gated":
            return []
        if held is None or held.token != process.token:
            waits = process.phase in IN_FLIGHT
            return [] if waits else [self._stop(world, index, "renews: lease gone, stops")]
        stranger = self.rules.stranger_wrote(
            len(world.run.journal), sent_head=process.head, in_flight=process.phase in IN_FLIGHT
        )
        if stranger:
            broken = () if world.truth.copied_at else ("G13 a worker stops though nobody else wrote",)
            return [self._stop(world, index, "renews: a foreign head, stops", broken)]
        if not held.expired:
            return []
        return [Move(f"{NAMES[index]} renews", world._replace(held=held._replace(expired=False)))]

    def _crash(self, world: World, index: int, process: Process) -> list[Move]:
        if index == COPY:
            return []
        found: list[Move] = []
        left = world.left
        if left.crash:
            held, truth = world.held, world.truth
            if held is not None and held.token == process.token:
                held = held._replace(dead=True)
            if not self.configuration.same_host:
                truth = truth._replace(unproven=process.epoch)
            after = world._replace(
                processes=world.but(index, IDLE), held=held, truth=truth, left=left._replace(crash=left.crash - 1)
            )
            found.append(Move(f"{NAMES[index]} crashes", after, fault=True))
        if left.lock and process.lock:
            processes = world.but(index, process._replace(lock=False))
            after = world._replace(processes=processes, left=left._replace(lock=left.lock - 1))
            found.append(Move(f"{NAMES[index]} loses its life lock's connection", after, fault=True))
        return found
