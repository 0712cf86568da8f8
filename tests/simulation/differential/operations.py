"""Every operation, and every pair of an operation and a situation: which can occur, and why the others cannot."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.differential import holders, leased, people, sweeps
from tests.simulation.differential.situations import (
    ASKING,
    CANCELLED,
    COMPLETED,
    DOOMED,
    ENDED_CANCELLED,
    FAILED,
    HELD,
    JOINING,
    LATER,
    LISTENING,
    NEW,
    OVERDUE,
    QUEUED,
    READY,
    RUNNING,
    SITUATIONS,
    SLEEPING,
    UNDOING,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class About(Enum):
    """What an operation is about."""

    RUN = auto()
    """A run, by its number; its pairs are about where that run stands."""
    LEASE = auto()
    """A lease that somebody holds, or believes to hold."""
    WHOEVER = auto()
    """Whatever runs it concerns: its pairs are about those that it changed."""
    STORE = auto()
    """No run that was there before."""


class Operation(NamedTuple):
    """An operation: what it does, what it is about, and whether it can be refused or find nothing to do."""

    act: Callable[..., bool]
    about: About
    refusable: bool = True


_BUILDS = (
    *(holders.step, holders.intent, holders.outcome, holders.turn, holders.complete, holders.fail),
    *(holders.end_cancelled, holders.give_back, holders.sleep, holders.listen, holders.question, holders.trouble),
    *(holders.hook, holders.expect, holders.join, holders.consume, holders.expire, holders.withdraw),
    *(holders.send, holders.spawn, holders.reply, holders.undo, holders.speak),
)
_LEASED = (
    *(holders.batch, leased.emit, leased.renew, leased.look_back),
    *(leased.reserve, leased.settle, leased.left, leased.pace),
)
_RUNS = (
    *(people.signal, people.interrupt, people.cancel, people.decide, people.settle_late, people.gate),
    *(people.callback, people.request, people.fork, people.rewind, people.retry),
)
_SWEEPS = (
    *(sweeps.claim, sweeps.reap, sweeps.fire_timers, sweeps.deliver, sweeps.follow, sweeps.admit),
    *(sweeps.cancel_late, sweeps.wake_short, sweeps.prune, sweeps.publish, sweeps.fan_out),
)
_STORE = (sweeps.start, sweeps.limit, sweeps.tidy, sweeps.schedule, sweeps.tend, sweeps.fire_slots)

OPERATIONS: dict[str, Operation] = {
    **{one.__name__: Operation(holders.committed(one), About.LEASE) for one in _BUILDS},
    **{one.__name__: Operation(one, About.LEASE) for one in _LEASED},
    **{one.__name__: Operation(one, About.RUN) for one in _RUNS},
    **{one.__name__: Operation(one, About.WHOEVER) for one in _SWEEPS},
    **{one.__name__: Operation(one, About.STORE) for one in _STORE},
    **{one.__name__: Operation(one, About.STORE, refusable=False) for one in (sweeps.wait, sweeps.wait_long)},
}
"""Every operation by its name."""

ALIVE = frozenset(SITUATIONS) - {COMPLETED, FAILED, ENDED_CANCELLED, "gone"}
_BEGUN = ALIVE - {LATER, QUEUED, NEW}
_UNCANCELLED = ALIVE - {DOOMED, CANCELLED, UNDOING}

CHANGES: dict[str, tuple[frozenset[str], str]] = {
    "claim": (frozenset({NEW, READY, DOOMED}), "only a ready run is claimed"),
    "reap": (frozenset({RUNNING, CANCELLED, OVERDUE}), "only a run with a lease can lose it"),
    "fire_timers": (
        frozenset({LATER, SLEEPING, LISTENING, ASKING, JOINING, UNDOING}),
        "only a run that waits for a moment is woken by it",
    ),
    "deliver": (ALIVE, "a run that ended keeps no message and gets no child"),
    "follow": (
        _BEGUN | {NEW},
        "only a parent, which has begun, and a child, which has no line and no moment, are told",
    ),
    "admit": (frozenset({QUEUED}), "only who waits for a place is given one"),
    "cancel_late": (_UNCANCELLED, "who ended or is being cancelled needs no deadline"),
    "wake_short": (_BEGUN, "only a run that had a lease asked for money, and only while it lives"),
    "prune": (frozenset({COMPLETED, FAILED, ENDED_CANCELLED}), "only what ended is removed"),
    "publish": (
        _BEGUN - {DOOMED, CANCELLED, UNDOING, SLEEPING},
        "an event goes to who waits for it and is not cancelled",
    ),
    "fan_out": (
        _BEGUN - {DOOMED, CANCELLED, UNDOING, SLEEPING},
        "an event goes to who waits for it and is not cancelled",
    ),
}
"""Which runs a sweep may change, by where they stand; and why no others."""

NOBODY: tuple[frozenset[str], str] = (frozenset(), "it is about no run that was there before")
"""What changes the store, and no run."""

NOT_HELD = (frozenset({LATER, QUEUED, NEW}), "nobody ever held a lease of a run that was never claimed")
"""Where no leaseholder's run stands."""


def impossible(name: str, situation: str) -> str:
    """Return why an operation cannot meet a run there, or nothing."""
    about = OPERATIONS[name].about
    if about is About.STORE:
        return NOBODY[1]
    if about is About.LEASE:
        return NOT_HELD[1] if situation in NOT_HELD[0] else ""
    if situation in HELD:
        return "who asks holds no lease"
    if about is About.WHOEVER and situation not in CHANGES[name][0]:
        return CHANGES[name][1]
    return ""


def pairs() -> dict[tuple[str, str], str]:
    """Return every (operation, situation) pair, and why it cannot occur (nothing: it can)."""
    return {(name, where): impossible(name, where) for name in OPERATIONS for where in (*SITUATIONS, *HELD)}


def targets(name: str, world: Any) -> list[Any]:
    """Return what an operation can be applied to now: runs, or leases, or nothing in particular."""
    about = OPERATIONS[name].about
    return world.numbers() if about is About.RUN else world.held() if about is About.LEASE else [None]
