"""Waits: what a run needs, and which of several satisfied ones is consumed first.

A signal stays among the unread until a journal entry consumes it, so the loser of a race has taken nothing and gives
nothing back (the protocol's "withdrawing puts its signal back in its place" holds by construction). A decision of a
person stands on the wait's own row, first one wins. A timer that falls due is written nowhere: the executor compares
its due time with the store's `now`, and which wait won is journaled when it is consumed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


INTERRUPT = "~interrupt"
"""The name of the signal that interrupts a run (`worker.interrupting`)."""
SETTLED = "Settled"
"""The kind of a failure that a person said: its detail is theirs, or `SAID_FAILED`."""
SAID_FAILED = "a person said that it failed"
SAYS_RESULT = "says result"
"""In the answer to an unknown effect: `happened` is what its function gave back, as a person says it, and not an outcome as
whoever called that function keeps it. A late worker's answer has no such mark, nor has one of a torpor before it was there.
"""


class WaitKind(IntEnum):
    """What a run waits for."""

    TIMER = 1
    MESSAGE = 2
    APPROVAL = 3
    ATTENTION = 4
    RETRY = 5
    QUESTION = 6
    CALLBACK = 7
    EVENT = 8
    CHILD = 9
    CHILDREN = 10
    RATE = 11
    BUDGET = 12

    @property
    def word(self) -> str:
        """Return the word people and programs see."""
        return self.name.lower()

    @property
    def for_person(self) -> bool:
        """Whether only a person can end it."""
        return self in _FOR_PERSON

    @property
    def lasting(self) -> bool:
        """Whether an entry of its own made it known, so that its row keeps its slot for as long as it is open."""
        return self in _LASTING

    @property
    def by_signal(self) -> bool:
        """Whether a signal ends it: one in the run's inbox, under a name of the author's or a reserved one."""
        return self in _BY_SIGNAL


_FOR_PERSON = frozenset({WaitKind.APPROVAL, WaitKind.ATTENTION, WaitKind.QUESTION, WaitKind.BUDGET})
_LASTING = _FOR_PERSON | {WaitKind.CALLBACK, WaitKind.EVENT}
_BY_SIGNAL = frozenset({WaitKind.MESSAGE, WaitKind.CALLBACK, WaitKind.EVENT})


class Trouble(IntEnum):
    """Why a run waits for attention."""

    UNKNOWN_EFFECT = 1
    DIVERGED = 2
    POISON = 3
    UNREADABLE = 4


class Open(NamedTuple):
    """One open wait as the executor sees it, in the order it was opened.

    `due_at` is a timer's moment or the expiry of anything else; `answered_at` says when a person decided, if one did.
    A signal must have this `name`, and be among those that `accepts` names if it names any; `title` is for people.
    """

    key: str
    kind: WaitKind
    name: str = ""
    due_at: int | None = None
    answered_at: int | None = None
    answer: bytes | None = None
    slot: int = 0
    names: tuple[str, ...] = ()
    """The signals it needs, all of them: it is about children."""
    title: str = ""
    accepts: frozenset[int] | None = None


class Signal(NamedTuple):
    """An unread signal: its place among the run's signals, when the store took it, its name and value."""

    seq: int
    at: int
    name: str
    body: bytes | None
    sender: str | None = None


class TooLate(NamedTuple):
    """A decision that came when somebody had been first: about the wait that entry `seq` opened, and what it said."""

    run_id: int
    seq: int
    said: str
    at: int = 0


class Delivery(NamedTuple):
    """What satisfies a wait: a signal, a decision, or time (neither)."""

    wait: Open
    at: int
    signal: Signal | None = None
    decided: bool = False
    signals: tuple[Signal, ...] = ()
    """All that it takes, in the order of the wait's `names`; `signal` is the last that came."""


def next_delivery(waits: Sequence[Open], unread: Iterable[Signal], *, now: int) -> Delivery | None:
    """Return what is to be consumed next, or None: nothing is satisfied at `now`.

    The earliest wins; what arrived at the very moment a timer fell due beats the timer; of two equal waits for a name
    the older one gets the older signal (G7). Never early by the store's clock (G8). A signal that came for a wait with an
    expiry beats it: whoever sent it was told that it counts.
    """
    named: dict[str, list[Signal]] = {}
    for signal in unread:
        named.setdefault(signal.name, []).append(signal)
    best: Delivery | None = None
    taken: set[tuple[str, int]] = set()
    for wait in waits:
        found = _satisfied(wait, named, taken, now)
        if found is not None and (best is None or _rank(found) < _rank(best)):
            best = found
    return best


def _rank(delivery: Delivery) -> tuple[int, bool]:
    return delivery.at, delivery.signal is None and not delivery.decided


def _satisfied(wait: Open, named: dict[str, list[Signal]], taken: set[tuple[str, int]], now: int) -> Delivery | None:
    if wait.answered_at is not None:
        return Delivery(wait, wait.answered_at, decided=True)
    if wait.kind.by_signal:
        for signal in named.get(wait.name, ()):
            place = (wait.name, 0 if wait.accepts is None else signal.seq)
            if place not in taken and (wait.accepts is None or signal.seq in wait.accepts):
                taken.add(place)  # a younger wait for the same name must not take it from the older one
                return Delivery(wait, signal.at, signal=signal)
    if wait.names:
        return _all_there(wait, named, taken)
    if wait.due_at is not None and wait.due_at <= now:
        return Delivery(wait, wait.due_at)
    return None


def _all_there(wait: Open, named: dict[str, list[Signal]], taken: set[tuple[str, int]]) -> Delivery | None:
    """Return what satisfies a wait for several signals: nothing before the last of them came."""
    places = {(name, 0) for name in wait.names}
    if places & taken or not all(name in named for name in wait.names):
        return None
    taken |= places
    signals = tuple(named[name][0] for name in wait.names)
    last = max(signals, key=lambda signal: signal.seq)
    return Delivery(wait, last.at, signal=last, signals=signals)


def due_at(waits: Iterable[Open]) -> int | None:
    """Return the least due time of the open waits: `runs.due_at` while the run sleeps."""
    return min((wait.due_at for wait in waits if wait.due_at is not None and wait.answered_at is None), default=None)


def may_fire(due: int | None, *, now: int, waiting: bool) -> bool:
    """Whether a sweep may still make a run ready for its timer, asked again under the run's lock."""
    return waiting and due is not None and due <= now
