"""The small world: rows of a store, three processes, a clock and what may still go wrong. All of it immutable.

One run: a pure step, an effect, a signal that races a timer, a second step. Two workers; the first may be copied at any
moment, which gives the third process. A frozen process is one that takes no step for as long as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from torpor.core.effect import Safety
from torpor.core.lease import Lease
from torpor.core.run import Flag, State

W1, COPY, W2 = 0, 1, 2
NAMES = ("W1", "W1'", "W2")

NOW = 100
"""The store's clock while no timer is due; a lease that is not over ends later, one that is over ended before."""
DUE_AT = 110
LATE = 120
"""The store's clock once the timer is due."""

RUN_ID = 1


class Run(NamedTuple):
    """The run's row, with its journal `(epoch, code)`, its unread signals `(seq, late)` and the row of its attention wait."""

    state: State = State.READY
    epoch: int = 0
    journal: tuple[tuple[int, str], ...] = ()
    inbox: int = 0
    unread: tuple[tuple[int, bool], ...] = ()
    cancel: bool = False
    due_at: int | None = None
    charged: int = 0
    answer: str = ""


class Held(NamedTuple):
    """The lease's row. `dead` is the truth about its holder, known to nobody without a proof."""

    token: int
    epoch: int
    holder: int
    expired: bool = False
    dead: bool = False


class Process(NamedTuple):
    """What one process believes, and how far it is with its next commit.

    `phase`: none, idle, at (about to do `place`), sent, answer (the store's `verdict` is in the socket), recover (the
    connection broke; `stage` acts of recovery are done), reopen (the same with nothing under way), gated (past the gate:
    the effect may start any moment). `opened_in` is the incarnation its connection was opened in; a copy's own
    incarnation is 1. `lock`: its life lock lives.
    """

    phase: str
    token: int = 0
    epoch: int = 0
    head: int = 0
    place: str = ""
    seen: int = 0
    stage: int = 0
    verdict: str = ""
    opened_in: int = 0
    lock: bool = True

    @property
    def active(self) -> bool:
        """Whether it believes that it drives the run."""
        return self.phase not in {"none", "idle"}


NO_PROCESS = Process("none")
IDLE = Process("idle")
IN_FLIGHT = frozenset({"sent", "answer", "recover"})


class Truth(NamedTuple):
    """What nobody in the world knows and the properties need."""

    starts: int = 0
    key: str = ""
    copied_at: str = ""
    """Where the copy was made: empty, `gated` (the one stated hole of G4) or the phase and place."""
    believed: tuple[tuple[int, int], ...] = ()
    """(head, process) for commits at which a process went on, while a copy lives."""
    unproven: int = 0
    """The epoch of a stretch that crashed where nobody can prove it."""
    claims: int = 0


class Faults(NamedTuple):
    """How often each thing may still happen."""

    lost: int = 0
    delayed: int = 0
    crash: int = 0
    copy: int = 0
    expiry: int = 0
    clock_back: int = 0
    lock: int = 0
    failover: int = 0
    again: int = 0
    signal: int = 0
    cancel: int = 0


class World(NamedTuple):
    """One state of everything."""

    run: Run
    held: Held | None
    processes: tuple[Process, Process, Process]
    delayed: tuple[int, Process] | None
    sweep: tuple[str, int] | None
    late: bool
    truth: Truth
    left: Faults
    backup: tuple[Run, Held | None] | None = None
    quiet: bool = False

    def but(self, index: int, process: Process) -> tuple[Process, Process, Process]:
        """Return the processes with one replaced."""
        first, second, third = self.processes
        if index == W1:
            return process, second, third
        return (first, process, third) if index == COPY else (first, second, process)


class Move(NamedTuple):
    """One thing that can happen: its name, the world after it, what it broke, whether it is a fault."""

    label: str
    world: World
    broken: tuple[str, ...] = ()
    fault: bool = False


NO_FAULTS = Faults()


@dataclass(frozen=True, slots=True)
class Configuration:
    """Which part of the world is explored: the program's parts, the faults, how much of it interleaves."""

    name: str
    safety: Safety = Safety.ONCE
    parts: tuple[str, ...] = ("one", "effect", "race", "two")
    faults: Faults = NO_FAULTS
    same_host: bool = True
    """Whether a crash can be proven: the life lock's file lies on a host that somebody else can ask."""
    two_phases: bool = False
    """Whether sweeps select first and apply later."""
    renewals: bool = False
    blind_copies: bool = False
    """Whether a copy goes on without noticing that its connection is another's (a raw clone on SQLite)."""
    no_hole: bool = False
    """Whether a copy made between the gate and the effect's end counts as a violation as well."""
    note_beliefs: bool = False
    """Whether to remember who believes in which commit even while there is no copy."""

    def first(self) -> World:
        """Return the world as it begins."""
        return World(Run(), None, (IDLE, NO_PROCESS, IDLE), None, None, late=False, truth=Truth(), left=self.faults)


@cache
def _lease(held: Held, head: int, *, cancel: bool) -> Lease:
    expires_at = NOW - 1 if held.expired else LATE + 1
    flags = Flag.CANCEL if cancel else Flag.NONE
    return Lease(RUN_ID, held.token, held.epoch, head, held.holder, expires_at, flags)


def lease_row(world: World) -> Lease | None:
    """Return the lease as the core sees it."""
    if world.held is None:
        return None
    return _lease(world.held, len(world.run.journal), cancel=world.run.cancel)


def now(world: World) -> int:
    """Return the store's clock."""
    return LATE if world.late else NOW
