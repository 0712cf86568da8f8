"""Replay: code runs again from the last checkpoint while the journal answers.

A call is known by (kind, name, argument digest, occurrence among equals) in its turn, or by a `step_id` the author
gave. Its key is written into every entry that belongs to it.

The executor asks about each call in the order the code makes them, and hands back what resolved them **one entry at a
time, in journal order**, letting the code run until it is idle in between; so code meets its results in the order it
met them the first time, and a race between a timer and a signal ends the same way. Nothing new is started before the
last entry was delivered. Replay does no IO: every divergence is a plain unit test.

A **retry** of a failed run (Kind.RETRY) changes what the journal answers. What was superseded is forgotten: that call
begins anew. Calls that had no end yet lose their question and their count of attempts, not their intents: an unknown
effect stays unknown. What was recorded *after* the first superseded failure (code that caught it, told somebody and
raised it again) is spare: it answers a call that the code makes again, and is not missed if it does not.

Code diverged when it

* asks for an effect whose name has an entry that was not asked for yet, with other arguments (before it starts);
* is idle, and the next entry belongs to a call it did not make;
* leaves an intent or an open wait behind that it did not ask for; a question for a person excepted, which is closed (G10).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.journal import RESOLVES, Kind
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torpor.core.journal import Stored


KEY_BYTES = 6
"""So much of an argument digest stands in a key: it tells equal names in one turn apart, it proves nothing."""


class CallKind(StrEnum):
    """What kind of call it is: the first letter of its key."""

    STEP = "s"
    EFFECT = "e"
    TIMER = "t"
    APPROVAL = "a"
    MESSAGE = "m"
    SEND = "x"
    VALUE = "v"
    SPAWN = "p"
    JOIN = "j"
    EMIT = "o"
    RATE = "r"
    BUDGET = "b"
    COMPENSATION = "k"
    TURN = "z"
    """The end of one: its checkpoint's mark (core.checkpoint)."""
    ASK = "q"
    CALLBACK = "c"
    EVENT = "n"
    REPLY = "y"
    REQUEST = "u"


_QUESTIONS = frozenset({CallKind.APPROVAL, CallKind.ASK})


class Call(NamedTuple):
    """One call that flow code makes. `digest` is empty when there are no arguments; `step_id` replaces counting."""

    kind: CallKind
    name: str
    digest: bytes = b""
    step_id: str = ""


def call_key(call: Call, occurrence: int) -> str:
    """Return the key of the n-th equal call (from 1) in a turn, `s:scan#1~9f3c2a01b7d4`."""
    if call.step_id:
        return f"{call.kind}:{call.name}@{call.step_id}"
    if call.digest:
        return f"{call.kind}:{call.name}#{occurrence}~{call.digest[:KEY_BYTES].hex()}"
    return f"{call.kind}:{call.name}#{occurrence}"


def kind_of(key: str) -> CallKind:
    """Return the kind of call a key belongs to."""
    return CallKind(key[0])


def name_of(key: str) -> str:
    """Return the name of the function, message or approval a key belongs to."""
    return key[2:].rpartition("#" if "#" in key else "@")[0]  # a step_id holds no '#'; a message's name may hold '@'


def shown(key: str) -> str:
    """Return a key as people see it: `publish#2`, without kind and digest."""
    return key[2:].partition("~")[0]


@dataclass(slots=True)
class Record:
    """Everything the journal knows about one call."""

    key: str
    intents: list[Stored] = field(default_factory=list)
    wait: Stored | None = None
    notes: list[Stored] = field(default_factory=list)
    resolved: Stored | None = None
    asked: bool = False
    delivered: bool = False
    spare: bool = False
    """Recorded on the way from a failure that a retry superseded to the run's end."""

    @property
    def started(self) -> bool:
        """Whether an intent is durable."""
        return bool(self.intents)


class Asked(NamedTuple):
    """The answer to a call: its key, what is recorded of it if anything, and the other side if the code diverged."""

    key: str
    record: Record | None
    diverged_from: Record | None


class Replay:
    """The journal of one open turn, asked call by call. One instance for one stretch of one turn."""

    def __init__(self, entries: Iterable[Stored]) -> None:
        """Take the entries after the last checkpoint, in order."""
        self._records: dict[str, Record] = {}
        self._order: list[Record] = []
        self.spares: list[Record] = []
        """What was recorded on the way from a superseded failure to the run's end."""
        self._next = 0
        self._named: set[str] = set()
        self._counts: dict[tuple[CallKind, str, bytes], int] = {}
        superseded: set[str] = set()
        for entry in entries:
            if entry.kind is Kind.RETRY:
                if entry.key is not None:
                    superseded.add(entry.key)
                else:
                    self._retry(superseded)
                    superseded = set()
            elif entry.key is not None:
                self._note(entry)

    def _retry(self, superseded: set[str]) -> None:
        """Forget what was superseded; make spare what came after it; ask and count anew what had no end."""
        ends = [self._records[key].resolved for key in superseded if key in self._records]
        since = min((end.seq for end in ends if end is not None), default=None)
        for key in superseded & self._records.keys():
            del self._records[key]
        for record in self._records.values():
            if record.resolved is not None:
                record.spare = record.spare or (since is not None and record.resolved.seq > since)
                continue
            record.wait = None
            if kind_of(record.key) in {CallKind.STEP, CallKind.EFFECT}:
                record.notes.clear()  # failed attempts; other notes are what code was given or has said
        known = [record for record in (*self._order, *self.spares) if self._records.get(record.key) is record]
        self._order = [record for record in known if not record.spare]
        self.spares = [record for record in known if record.spare]

    def _note(self, entry: Stored) -> None:
        key = entry.key or ""
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = Record(key)
        if entry.kind in RESOLVES:
            if record.resolved is None:
                record.resolved = entry
                self._order.append(record)
        elif entry.kind is Kind.INTENT:
            record.intents.append(entry)
        elif entry.kind is Kind.WAIT:
            record.wait = entry
        elif entry.kind is Kind.NOTE:
            record.notes.append(entry)

    def has(self, call: Call) -> bool:
        """Whether the journal of earlier stretches answers a call that has a `step_id`. Asking counts nothing."""
        record = self._records.get(call_key(call, 1))
        return record is not None and record.resolved is not None

    def ask(self, call: Call) -> Asked:
        """Ask about a call the code makes now. Counts it among its equals."""
        counted = (call.kind, call.name, call.digest)
        occurrence = self._counts.get(counted, 0) + 1
        self._counts[counted] = occurrence
        key = call_key(call, occurrence)
        if call.step_id:
            if key in self._named:
                message = f"step_id={call.step_id!r} names two calls of {call.name} in one turn"
                raise UsageError(message, hint="give each call a step_id of its own, or none")
            self._named.add(key)
        if not self._records:
            return Asked(key, None, None)
        record = self._records.get(key)
        if record is not None:
            record.asked = True
            return Asked(key, record, None)
        return Asked(key, None, self._other_arguments(call) if call.kind is CallKind.EFFECT else None)

    def _other_arguments(self, call: Call) -> Record | None:
        """Return an entry of the same effect that the code did not ask for: what it asks now is not what was recorded."""
        for record in self._records.values():
            other = not record.asked and not record.spare and kind_of(record.key) is CallKind.EFFECT
            if other and name_of(record.key) == call.name:
                return record
        return None

    def next(self) -> Record | None:
        """Return the next record to deliver, or None: either all is delivered, or the code has not asked for it."""
        if self._next < len(self._order) and self._order[self._next].asked:
            record = self._order[self._next]
            record.delivered = True
            self._next += 1
            return record
        return None

    def next_spare(self) -> Stored | None:
        """Return what resolved a spare record that the code asks for, to be delivered before anything else, or None."""
        for record in self.spares:
            if record.asked and not record.delivered:
                record.delivered = True
                return record.resolved
        return None

    @property
    def silent(self) -> bool:
        """Whether every answer on record was handed over, in whatever order: what is asked now was not asked before."""
        return all(record.delivered for record in (*self._order, *self.spares))

    @property
    def exhausted(self) -> bool:
        """Whether every entry that resolves a call was delivered."""
        return self._next >= len(self._order)

    def left_behind(self) -> Record | None:
        """Return what idle or finished code did not ask for: it diverged. None: all is well.

        Recorded values and notes may stay behind, they had no consequence.
        """
        if not self.exhausted:
            return self._order[self._next]
        for record in self._records.values():
            left = record.intents or record.wait is not None
            if left and not (record.asked or record.spare or _only_asked(record)):
                return record
        return None

    def unasked(self) -> Record | None:
        """Return what code that asks in any order (a guest) did not ask for until its turn ended: it diverged. None: well."""
        for record in self._records.values():
            ended = record.resolved is not None and kind_of(record.key) is not CallKind.EMIT
            left = ended or record.intents or record.wait is not None
            if left and not (record.asked or record.spare or _only_asked(record)):
                return record
        return None

    def unasked_questions(self) -> list[int]:
        """Return the entries of open questions for people that the code did not ask this time.

        They had no consequence, so the code has not diverged: it asks something else, which needs an answer of its own.
        """
        return [
            record.wait.seq
            for record in self._records.values()
            if record.wait is not None and not record.asked and _only_asked(record)
        ]


def _only_asked(record: Record) -> bool:
    return kind_of(record.key) in _QUESTIONS and record.resolved is None
