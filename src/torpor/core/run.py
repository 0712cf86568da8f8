"""What a run can be, and the one table of what may follow what."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class State(IntEnum):
    """The six states. `running` means exactly: there is a lease (G1)."""

    READY = 1
    WAITING = 2
    RUNNING = 3
    COMPLETED = 4
    FAILED = 5
    CANCELLED = 6

    @property
    def word(self) -> str:
        """Return the word people and programs see."""
        return self.name.lower()

    @property
    def final(self) -> bool:
        """Whether it has ended: nothing follows by itself. Only a person's retry starts a failed run again."""
        return self >= State.COMPLETED


class Flag(IntFlag):
    """What rides on a run's row, and while it runs on its lease's row as well."""

    NONE = 0
    CANCEL = 1
    """Cancel was asked and acknowledged: no intent is accepted any more (G12)."""
    ATTENTION = 2
    """Its open waits include one for a person about trouble."""
    PERSON = 4
    """Its open waits include one for a person."""
    FAMILY = 8
    """It has, or had, children that end with it."""
    LINE = 16
    """It holds a concurrency key, or waits for one."""
    CHILD = 32
    """Its parent must be told of its end."""
    INDEPENDENT = 64
    """A child that goes on whatever becomes of its parent."""
    UNDOING = 128
    """It was cancelled and waits inside its compensations: what wakes it counts as if it were not cancelled."""
    QUEUED = 256
    """It waits for a place in its line, and nothing else wakes it but a cancel."""


LASTING = Flag.CANCEL | Flag.FAMILY | Flag.LINE | Flag.CHILD | Flag.INDEPENDENT
"""What stays when a run is put away; the others say what it was put away for."""

FOLLOWED = Flag.FAMILY | Flag.LINE | Flag.CHILD
"""With any of these others must learn of a run's end: it gets a follow-up (docs/decisions/0006)."""


FOLLOWS: dict[State, frozenset[State]] = {
    State.READY: frozenset({State.RUNNING}),
    State.RUNNING: frozenset({State.READY, State.WAITING, State.COMPLETED, State.FAILED, State.CANCELLED}),
    State.WAITING: frozenset({State.READY}),
    State.COMPLETED: frozenset(),
    State.FAILED: frozenset({State.READY}),
    State.CANCELLED: frozenset(),
}
"""Only a claim makes a run `running`; only its leaseholder, or a reaper, ends that; whatever wakes it makes it `ready`.

A failed run becomes `ready` by a person's retry (`engine.retrying`), by nothing else.
"""

POISON_TAKEOVERS = 3
"""So many takeovers in a row without one new entry send a run to attention (docs/lifecycle.md)."""


def may_follow(before: State, after: State) -> bool:
    """Whether the table allows this change."""
    return after in FOLLOWS[before]


def parked_as(*, inbox: int, seen: int, cancel: bool, undoing: bool = False) -> State:
    """Return the state of a run that is put away.

    Agreement lives on the run's row: whatever wakes a run counts `inbox` up, whoever parks it says how far it has
    `seen`. If more came than was seen, or cancel was asked, the code could go on: `ready`, not `waiting` (G7, G12). A run
    that waits inside its compensations knows of its cancel.
    """
    return State.READY if inbox > seen or (cancel and not undoing) else State.WAITING
