"""Which parts of the small world are explored.

All faults at once would be too many worlds, so each configuration takes the ones that meet in one part of the protocol.
`TORPOR_EXPLORATION=deep` explores the larger ones as well: minutes, and a few gigabytes of memory.
"""

from __future__ import annotations

from tests.exploration.world import Configuration, Faults
from torpor.core.effect import Safety

EFFECT = ("one", "effect")
RACE = ("one", "race", "two")

CALM = Configuration("calm", renewals=True, faults=Faults(signal=1))


def crash(safety: Safety) -> Configuration:
    """A worker dies at any moment, another lives past its lease, cancel comes, sweeps work on what they selected."""
    return Configuration(
        f"crash, {safety}",
        safety,
        EFFECT,
        Faults(crash=1, expiry=1, again=1, cancel=1),
        two_phases=True,
    )


def lost(safety: Safety) -> Configuration:
    """A connection breaks, and the commit on it arrives never, before, or much later."""
    return Configuration(f"lost, {safety}", safety, EFFECT, Faults(lost=1, delayed=1, expiry=1, again=1, cancel=1))


def copied(safety: Safety) -> Configuration:
    """A worker is copied; a copy finds its connection unusable. An answer is lost."""
    return Configuration(f"copy, {safety}", safety, EFFECT, Faults(copy=1, lost=1, expiry=1))


def blind(safety: Safety) -> Configuration:
    """A raw clone that notices nothing before it is asked for its life lock."""
    return Configuration(
        f"blind copy, {safety}",
        safety,
        EFFECT,
        Faults(copy=1, expiry=1, again=1, cancel=1),
        blind_copies=True,
    )


def unlocked(safety: Safety, *, same_host: bool) -> Configuration:
    """A life lock is lost while its process lives, and a process dies, on this host or on another."""
    where = "this host" if same_host else "another host"
    return Configuration(
        f"life lock on {where}, {safety}",
        safety,
        EFFECT,
        Faults(lock=1, crash=1, expiry=1, again=1),
        same_host=same_host,
        two_phases=same_host,
    )


def whole(safety: Safety) -> Configuration:
    """The whole program."""
    return Configuration(
        f"whole program, {safety}", safety, faults=Faults(crash=1, expiry=1, again=1, signal=1, cancel=1)
    )


RACED = Configuration(
    "race",
    parts=RACE,
    faults=Faults(signal=1, crash=1, expiry=1, clock_back=1, cancel=1),
    two_phases=True,
)
RACE_LOST = Configuration("race, lost", parts=RACE, faults=Faults(signal=1, lost=1, delayed=1, cancel=1))
RACE_COPIED = Configuration("race, copy", parts=RACE, faults=Faults(signal=1, copy=1, lost=1))
RACE_BLIND = Configuration(
    "race, blind copy", parts=RACE, faults=Faults(signal=1, copy=1), renewals=True, blind_copies=True
)
CHARGED = Configuration(
    "charge", parts=("one", "charge"), faults=Faults(lost=1, delayed=1, expiry=1, copy=1), renewals=True
)
FAILOVER = Configuration("failover", parts=EFFECT, faults=Faults(failover=2, expiry=1), note_beliefs=True)
FAILOVER_RACE = Configuration("failover, race", parts=RACE, faults=Faults(failover=2, signal=1), note_beliefs=True)

EVERY_TIME = (
    CALM,
    *(crash(safety) for safety in Safety),
    *(lost(safety) for safety in Safety),
    *(copied(safety) for safety in Safety),
    *(blind(safety) for safety in Safety),
    *(unlocked(safety, same_host=here) for safety in (Safety.ONCE, Safety.VERIFY) for here in (True, False)),
    *(whole(safety) for safety in Safety),
    RACED,
    RACE_LOST,
    RACE_COPIED,
    RACE_BLIND,
    CHARGED,
    FAILOVER,
    FAILOVER_RACE,
)

DEEP = (
    *(
        Configuration(
            f"copy, lost, delayed, crash, {safety}",
            safety,
            EFFECT,
            Faults(copy=1, lost=1, delayed=1, expiry=1, crash=1),
        )
        for safety in (Safety.ONCE, Safety.VERIFY, Safety.TRANSACTIONAL)
    ),
    Configuration(
        "race, two signals",
        parts=RACE,
        faults=Faults(signal=2, crash=1, expiry=1, clock_back=1, cancel=1),
        two_phases=True,
    ),
    Configuration("race, copy, renewals", parts=RACE, faults=Faults(signal=1, copy=1, expiry=1, lost=1), renewals=True),
)
