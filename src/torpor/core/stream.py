"""A run's stream: numbered parts that attempts emit while they run, and how a dropped attempt's are taken back (G11).

The protocol, as each party may believe it:

*A part's number* is given out under the fence: a write carries the lease's token and epoch and the number it begins after,
and succeeds only if the stream's counter still is that number. Two copies of a worker hold equal values: the first write
wins, the other is refused (G1, G2). The first write of a stretch cannot know the counter; it succeeds only if no write
of its epoch came before. Numbers of one run are given out and become visible in one order, so a reader who asks for
"after n" never misses a part that was committed late (C03).

*A voice* is one attempt of one call. What it emitted is **loose** until the commit of that call's outcome keeps it. An
attempt that failed, was cancelled or lost its worker is dropped: a `retract` part names the ranges that are taken back,
before anything of the next attempt. While a run has no lease it has nothing loose: whoever ends a lease retracts, in the
same transaction. Voice 0 is the flow itself: what it emits travels in the commit that says it was emitted, and is kept.

*A reader* who drops what a retract names ends with the kept text, from whatever number it began (`Kept`). One who comes
from before parts that were pruned is told so in their place, and drops what it has up to there: a retract may have been
among them. What it then ends with is what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PRUNED = "pruned"
"""What a reader is told in the place of parts that are gone; not a part itself."""

TOOL = "tool"
"""A value part with this key tells of a call of a tool, by its name."""
CALL = "call"
"""With it stands which call: equal in the part that says that it begins and in that which says what it gave."""

SAYS = "says"
"""A value part with this key comes before the first text of an answer, and names who says it."""

PLAN = "plan"
"""A value part with this key tells of a plan that was made or revised: the titles of its milestones, or why it stays."""
MILESTONE = "milestone"
"""A value part with this key tells where the milestone of that title stands now: its `state`, and `by` whom or `why`."""

FLOW = 0
"""The voice of the flow itself."""

Ranges = list[tuple[int, int]]
"""Numbers from .. to, both included, in order."""


class PartKind(IntEnum):
    """What a part is."""

    TEXT = 1
    VALUE = 2
    RETRACT = 3
    """Takes earlier parts back; its body is a JSON list of [from, to]."""

    @property
    def word(self) -> str:
        """Return the word people and programs see."""
        return self.name.lower()


class NewPart(NamedTuple):
    """A part to be written: who emitted it and its encoded value. Its number is given out by the write."""

    voice: int
    kind: PartKind
    body: bytes


class PartRow(NamedTuple):
    """A part as it is stored. `at` is the store's time of the write."""

    n: int
    at: int
    kind: PartKind
    body: bytes


class StreamRow(NamedTuple):
    """A run's stream: its last number, the epoch that wrote last, what is loose by voice, as `1:3-17,20-22 2:18-19`."""

    run_id: int
    n: int
    epoch: int
    loose: str


@dataclass(slots=True)
class StreamWrite:
    """What a leaseholder wants written. `from_n` is the counter as it knows it, None before its first write.

    Retractions come before the parts. `ends`: whatever is loose afterwards is dropped, the stretch or the turn is over.
    """

    from_n: int | None
    parts: Sequence[NewPart] = ()
    keeps: Sequence[int] = ()
    drops: Sequence[int] = ()
    ends: bool = False


def accepts(row: StreamRow | None, *, epoch: int, from_n: int | None) -> bool:
    """Whether the counter is where the writer believes it (G1, G2). Token and epoch of the lease are asked besides."""
    if from_n is None:
        return row is None or row.epoch < epoch
    return row is not None and (row.epoch, row.n) == (epoch, from_n)


def advance(row: StreamRow | None, write: StreamWrite, *, run_id: int, epoch: int) -> tuple[StreamRow, list[PartRow]]:
    """Return the stream after a write, and the numbered parts to be added (their `at` is the store's to say)."""
    n = 0 if row is None else row.n
    loose = loose_of(row)
    gone = [voice for voice in loose if voice in write.drops or (write.ends and voice not in write.keeps)]
    taken_back = merged(one for voice in gone for one in loose.pop(voice))
    added: list[PartRow] = []
    if taken_back:
        n += 1
        added.append(PartRow(n, 0, PartKind.RETRACT, str([[first, last] for first, last in taken_back]).encode()))
    for voice, kind, body in write.parts:
        n += 1
        added.append(PartRow(n, 0, kind, body))
        if voice != FLOW and voice not in write.keeps:
            loose[voice] = merged([*loose.get(voice, ()), (n, n)])
    for voice in write.keeps:
        loose.pop(voice, None)
    return StreamRow(run_id, n, epoch, _packed(loose)), added


def loose_of(row: StreamRow | None) -> dict[int, Ranges]:
    """Return the loose ranges of a stream by voice."""
    if row is None or not row.loose:
        return {}
    found: dict[int, Ranges] = {}
    for one in row.loose.split():
        voice, _, ranges = one.partition(":")
        found[int(voice)] = [
            (int(first), int(last)) for first, _, last in (r.partition("-") for r in ranges.split(","))
        ]
    return found


def _packed(loose: dict[int, Ranges]) -> str:
    return " ".join(f"{voice}:{','.join(f'{a}-{b}' for a, b in ranges)}" for voice, ranges in loose.items())


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges in order, neighbours in one."""
    found: Ranges = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


@dataclass(slots=True)
class Kept:
    """What a reader holds: feed it parts in order of number, from any number on; `text` is what is kept of them."""

    n: int = 0
    parts: dict[int, Any] = field(default_factory=dict)

    def take(self, n: int, kind: str, body: Any) -> dict[int, Any]:
        """Take a part whose body is decoded; return what it took back, by number: parts from before the start are not known."""
        self.n = n
        if kind == PRUNED:
            self.parts = {number: kept for number, kept in self.parts.items() if number > n}
            return {}
        if kind != PartKind.RETRACT.word:
            self.parts[n] = body
            return {}
        return {
            number: self.parts.pop(number)
            for first, last in body
            for number in range(first, last + 1)
            if number in self.parts
        }

    @property
    def text(self) -> str:
        """The kept text so far."""
        return "".join(body for body in self.parts.values() if isinstance(body, str))
