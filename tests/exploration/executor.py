"""What the parties decide: the store about a commit, an executor about its next place, others about a holder.

Every decision is asked of the rules; nothing here has an opinion of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.exploration.program import AFTER, RESOLVING, WAITS, Program, rows, signals
from tests.exploration.rules import Attempt
from tests.exploration.world import COPY, DUE_AT, IDLE, NO_PROCESS, NOW, W1, W2, lease_row, now
from torpor.core.effect import Resume, Safety
from torpor.core.lease import Fence, Proof
from torpor.core.run import State
from torpor.core.wait import Delivery

if TYPE_CHECKING:
    from tests.exploration.rules import Rules
    from tests.exploration.world import Configuration, Process, Run, Truth, World
    from torpor.core.lease import LostAnswer

G2_TWICE = "G2 two processes believe one commit to be theirs"
VERDICTS = {Fence.HOLDS: "ok", Fence.LOST: "lost", Fence.CANCELLED: "cancelled"}


class Executor:
    """The decisions of the small world, under some rules."""

    def __init__(self, configuration: Configuration, rules: Rules) -> None:
        """Take the rules and the program."""
        self.configuration = configuration
        self.rules = rules
        self.safety = configuration.safety
        self.program = Program(configuration, rules)

    # ---- what others know of a holder

    def proof(self, world: World) -> Proof:
        """Return what a reaper can find out about the holder of the lease."""
        held = world.held
        if held is None:
            return Proof.NONE
        if held.dead:
            return Proof.PROCESS_GONE if self.configuration.same_host else Proof.LOCK_GONE
        holder = world.processes[held.holder]
        gone = holder.active and holder.token == held.token and not holder.lock
        return Proof.LOCK_GONE if gone else Proof.NONE

    def holder_gone(self, world: World, epoch: int, me: int | None = None) -> bool:
        """Whether the stretch of this epoch is known to be over: it said so, or its process is proven dead."""
        for index in (W1, W2):
            process = world.processes[index]
            if index != me and process.active and process.epoch == epoch:
                return self.rules.proves_process(Proof.NONE if process.lock else Proof.LOCK_GONE)
        return world.truth.unproven != epoch or self.rules.proves_process(Proof.LOCK_GONE)

    def reapable(self, world: World) -> bool:
        """Whether a sweep may end the lease now."""
        row = lease_row(world)
        if row is None:
            return False
        return self.rules.reapable(
            row,
            now=NOW,
            proof=self.proof(world),
            open_intent=open_intent(world.run),
            quiet_until=NOW + 1 if world.quiet else 0,
        )

    def fires(self, world: World) -> bool:
        """Whether a sweep may wake the run for its timer now."""
        return self.rules.may_fire(world.run.due_at, now=now(world), waiting=world.run.state is State.WAITING)

    def woken(self, run: Run) -> State:
        """Return the state after something came for the run: what is waiting becomes ready."""
        if run.state is not State.WAITING:
            return run.state
        return self.rules.parked_as(inbox=run.inbox + 1, seen=run.inbox, cancel=run.cancel)

    # ---- the executor

    def next_place(self, world: World, index: int, process: Process) -> Process:
        """Return the process, ready to do what comes after its head."""
        stand = self.program.stand(world.run.journal[: process.head])
        place = stand.at
        if place == "race":
            place = self._delivered(world, process)
        elif place == "wait":
            known = signals(world.run.unread, process.seen)
            place = "wait" if self.rules.next_delivery(WAITS, known, now=NOW) is None else "open"
        elif place == "effect":
            place = self._at_effect(world, index, stand.intent_epoch, asked_person=stand.asked_person)
        begun = place == "effect" and not self.safety.has_intent
        return process._replace(phase="gated" if begun else "at", place=place, stage=0, verdict="")

    def _delivered(self, world: World, process: Process) -> str:
        delivery = self.rules.next_delivery(WAITS, signals(world.run.unread, process.seen), now=now(world))
        if delivery is None:
            return "park"
        return "timer" if delivery.signal is None else "signal"

    def _at_effect(self, world: World, index: int, intent_epoch: int, *, asked_person: bool) -> str:
        if asked_person:
            answer = world.run.answer
            return {"open": "park", "happened": "outcome", "again": "again", "fail": "fail"}[answer]
        intent = intent_epoch > 0
        gone = self.holder_gone(world, intent_epoch, index) if intent else True
        what = self.rules.on_resume(self.safety, intent=intent, outcome=False, holder_gone=gone)
        if what is Resume.UNKNOWN:
            return "unknown"
        if what is Resume.ASK:
            if world.truth.starts:
                return "outcome"
            return "intent" if self.rules.again_writes_intent else "effect"
        if self.safety is Safety.TRANSACTIONAL:
            return "outcome"
        return "effect" if intent or not self.safety.has_intent else "intent"

    def life_lock_held(self, process: Process, index: int) -> bool:
        """Whether a round trip on the life lock's own connection, opened in the first incarnation, succeeds."""
        return process.lock and self.rules.connection_usable(0, lives_in(index))

    def usable(self, process: Process, index: int) -> bool:
        """Whether the process may use the connection it has."""
        return self.rules.connection_usable(process.opened_in, lives_in(index))

    def go_on(self, world: World, index: int, process: Process, *, cancel: bool) -> tuple[World, tuple[str, ...]]:
        """Let a process act on the knowledge that its commit happened."""
        codes = self.program.codes[process.place]
        head = process.head
        mine = tuple((process.epoch, code) for code in codes)
        broken: tuple[str, ...] = ()
        if world.run.journal[head : head + len(codes)] != mine and not self.configuration.faults.failover:
            broken = ("G3 a commit is believed that is not in the journal",)
        truth, twice = self._believe(world, index, process, codes)
        world = world._replace(truth=truth)
        if process.place in AFTER:
            return world._replace(processes=world.but(index, stopped(index))), broken + twice
        known = process._replace(head=head + len(codes))
        if cancel:
            after = known._replace(phase="at", place="cancel", stage=0, verdict="")
        elif process.place == "intent":
            after = known._replace(phase="at", place="effect", stage=0, verdict="")
        else:
            after = self.next_place(world, index, known)
        return world._replace(processes=world.but(index, after)), broken + twice

    def _believe(
        self, world: World, index: int, process: Process, codes: tuple[str, ...]
    ) -> tuple[Truth, tuple[str, ...]]:
        """Note that a process takes a commit for its own; two at one head break G2.

        Without a copy the epoch in the entry tells whose it is, so nothing need be noted.
        """
        truth, head = world.truth, process.head
        copy = world.processes[COPY].active
        if not codes or not (copy or self.configuration.note_beliefs):
            return (truth._replace(believed=()) if truth.believed else truth), ()
        twice = any(at == head and who != index for at, who in truth.believed)
        others = [p.head for i, p in enumerate(world.processes) if p.active and i != index]
        lowest = 0 if self.configuration.note_beliefs else min([head + len(codes), *others])
        believed = tuple(sorted(pair for pair in {*truth.believed, (head, index)} if pair[0] >= lowest))
        return truth._replace(believed=believed), (G2_TWICE,) if twice else ()

    def read_back(self, world: World, process: Process) -> LostAnswer:
        """Decide about a lost answer from what the store says now."""
        return self.rules.after_lost_answer(
            lease_row(world),
            rows(world.run.journal, process.head),
            token=process.token,
            epoch=process.epoch,
            head=process.head,
            entries=self.program.entries[process.place],
            ends_stretch=process.place in AFTER,
        )

    # ---- the store

    def start(self, truth: Truth, epoch: int) -> tuple[Truth, tuple[str, ...]]:
        """Let the effect happen in the world outside."""
        key = self.rules.key_of(Attempt(branch=0, turn=1, call="e:pay#1", epoch=epoch))
        broken: list[str] = []
        if truth.key and key != truth.key:
            broken.append("G5 another attempt has another key")
        starts = truth.starts + 1
        outside = truth.copied_at == "gated" and not self.configuration.no_hole
        if starts > 1 and not outside and not self.configuration.faults.failover:
            if self.safety in {Safety.ONCE, Safety.VERIFY}:
                broken.append("G4 the effect starts twice")
            elif self.safety is Safety.TRANSACTIONAL:
                broken.append("G6 the effect happens twice")
        return truth._replace(starts=min(starts, 2), key=key), tuple(broken)

    def commit(self, world: World, index: int, process: Process) -> tuple[str, World, tuple[str, ...]]:
        """Let the store decide about a commit. Returns its verdict, the world after it and what it broke."""
        place = process.place
        if place == "timer" and self.rules.early(now(world), DUE_AT):
            return "early", world, ()
        verdict = self.rules.fence(
            lease_row(world),
            token=process.token,
            epoch=process.epoch,
            head=process.head,
            has_intent=self.program.refused_once_cancelled[place],
        )
        if verdict is not Fence.HOLDS or world.held is None:
            return VERDICTS[verdict], world, ()
        run, truth, held = world.run, world.truth, world.held
        codes = self.program.codes[place]
        transactional = self.safety is Safety.TRANSACTIONAL
        broken = list(_broken_by_entries(world, index, place, codes, transactional=transactional))
        run = run._replace(
            journal=run.journal + tuple((process.epoch, code) for code in codes),
            charged=run.charged + (place == "charge"),
        )
        if place in {"wait", "open"}:
            run = run._replace(due_at=self.rules.due_at(WAITS))
        elif place in {"signal", "timer"}:
            run = self._consumed(process, run)
        elif place == "unknown":
            run = run._replace(answer="open")
        elif place in {"outcome", "again"}:
            run = run._replace(answer="")
        if place == "outcome" and transactional:
            truth, twice = self.start(truth, process.epoch)
            broken += twice
        after = AFTER.get(place)
        if after is None:
            held_after = held._replace(expired=False)
            world = world._replace(run=run, held=held_after, truth=truth)
        else:
            if after is State.WAITING:
                after = self.rules.parked_as(inbox=run.inbox, seen=process.seen, cancel=run.cancel)
            if not self.rules.may_follow(State.RUNNING, after):
                broken.append("G1 no such change of state")
            world = world._replace(run=run._replace(state=after), held=None, truth=truth)
        return "ok+cancel" if run.cancel else "ok", world, tuple(broken)

    def _consumed(self, process: Process, run: Run) -> Run:
        """Close both waits of the race and take what the winner takes."""
        if process.place == "signal":
            oldest = signals(run.unread, process.seen)[0]
            delivery = Delivery(WAITS[0], oldest.at, signal=oldest)
        else:
            delivery = Delivery(WAITS[1], DUE_AT)
        gone = self.rules.taken(delivery, tuple(seq for seq, _ in run.unread))
        unread = tuple(row for row in run.unread if row[0] not in gone)
        return run._replace(unread=unread, due_at=None)


def lives_in(index: int) -> int:
    """Return a process's incarnation."""
    return 1 if index == COPY else 0


def stopped(index: int) -> Process:
    """Return a process that dropped the run. A copy is not a worker: it is gone."""
    return NO_PROCESS if index == COPY else IDLE


def open_intent(run: Run) -> bool:
    """Whether an intent of the run has neither an outcome nor a person's leave to be forgotten."""
    last = ""
    for _, code in run.journal:
        if code in {"intent", "outcome", "again"}:
            last = code
    return last == "intent"


def _broken_by_entries(
    world: World, index: int, place: str, codes: tuple[str, ...], *, transactional: bool
) -> list[str]:
    held, run = world.held, world.run
    broken: list[str] = []
    if held is None or held.holder != (W1 if index == COPY else index):
        broken.append("G1 a commit by somebody who made no such claim")
    if place == "intent" and run.cancel:
        broken.append("G12 an intent is accepted after cancel")
    if place == "outcome" and transactional and run.cancel:
        broken.append("G12 a transactional effect happens after cancel")
    if place in {"end", "fail"} and run.cancel:
        broken.append("G12 a cancelled run ends as if nobody had asked")
    if place == "timer" and not world.late:
        broken.append("G8 a timer fires early by the store's clock")
    there = {code for _, code in run.journal}
    if any(code in there for code in codes if code in RESOLVING):
        broken.append("G3 a call is resolved twice")
    if {"signal", "timer"} & there and place in {"signal", "timer"}:
        broken.append("G7 a race ends twice")
    return broken
