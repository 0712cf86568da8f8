"""A commit: the one way a leaseholder changes its run, and the rules that need no store to be checked.

The hot commit reads nothing: the rules are decided on what the lease carries, and the store's `WHERE` checks token,
epoch and head again. Everything that must become true together travels in one proposal: entries, the new state, waits,
appended rows, signals taken, messages to others, and what the run is afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.journal import Entry, Kind
from torpor.core.run import State, may_follow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.stream import StreamWrite
    from torpor.core.wait import WaitKind


class NewWait(NamedTuple):
    """An open wait to be written in `slot` (a small number, used again once its wait is over).

    `seq` is the number of the entry that opened it, as an offset from the commit's head (1 is the first entry of this
    commit) if `fresh`, else absolute. `title` is one line for people.
    """

    slot: int
    seq: int
    kind: WaitKind
    due_at: int | None
    title: str
    fresh: bool = True
    need: int = 0
    members: bytes | None = None
    """For children: how many of them must still end before the run is woken, and which they are (`core.family`)."""
    matches: int | None = None
    """Of a wait for an event: what its index looks for (`core.event`)."""


class NewRow(NamedTuple):
    """One element appended to a `Rows` field: its number in that field, from 0, given out under the fence."""

    field: str
    n: int
    body: bytes


class MessageKind(IntEnum):
    """What a message in the outbox asks for."""

    SIGNAL = 0
    SPAWN = 1
    """Start a child: `name` is its program, `body` its first state, `detail` what else its parent
    said (`family.wishes`)."""
    SPAWN_INDEPENDENT = 2
    """Start a child that goes on whatever becomes of its parent."""

    @property
    def spawns(self) -> bool:
        """Whether a child is to be started."""
        return self in _SPAWNS


_SPAWNS = frozenset({MessageKind.SPAWN, MessageKind.SPAWN_INDEPENDENT})


class NewMessage(NamedTuple):
    """A message to another run, drained from the outbox by the waker. `key` makes it arrive once."""

    target: int
    name: str
    key: str
    body: bytes
    kind: MessageKind = MessageKind.SIGNAL
    detail: str = ""


class NewCompensation(NamedTuple):
    """An effect to be run if the run is cancelled: registered by the entry of this key, taken back by `ref`."""

    key: str
    ref: str
    body: bytes


class NewReply(NamedTuple):
    """The answer to a client that asked this run something under a key."""

    key: str
    body: bytes


class Blob(NamedTuple):
    """A large body, written before the commit that names it. `body` is packed."""

    digest: bytes
    body: bytes


@dataclass(slots=True)
class Proposal:
    """What a leaseholder wants to make true, at `head`, under its `token` and `epoch`."""

    run_id: int
    token: int
    epoch: int
    head: int
    entries: Sequence[Entry]
    after: State = State.RUNNING
    state_body: bytes | None = None
    """The new checkpoint's state; its entry is the CHECKPOINT in `entries`."""
    turn: int = 0
    """The number of the turn that follows the checkpoint."""
    keep: int = 0
    """How many checkpoints before this one stay whole (core.checkpoint)."""
    told_in_rows: bool = False
    """Whether outcomes are emptied together with the checkpoint of their turn (core.checkpoint)."""
    input_key: str | None = None
    """The mark of the run's input, if this is its first checkpoint and the input is to be kept."""
    program: int | None = None
    """The program's number if its version moved with this checkpoint."""
    needs_person: bool = False
    """Whether an open wait needs a person while the run is put away."""
    seen: int = 0
    """How far the inbox counter was seen; asked when the run is put away."""
    due_at: int | None = None
    not_before: int = 0
    """The due time of a timer these entries consume: refused as `early` before it, by the store's clock (G8)."""
    waits: Sequence[NewWait] = ()
    closes: Sequence[tuple[int, int]] = ()
    """(slot, seq) of waits of people that are withdrawn or expire: refused if a decision came first."""
    over: Sequence[int] = ()
    """Slots whose wait is over and needs no such care: timers, messages, retries, consumed decisions."""
    taken: Sequence[int] = ()
    """Numbers of the signals that these entries consume."""
    looked: bool = False
    """Whether these entries hold only if no signal came that was not `seen`: refused as `answered` otherwise."""
    rows: Sequence[NewRow] = ()
    messages: Sequence[NewMessage] = ()
    replies: Sequence[NewReply] = ()
    blobs: Sequence[Blob] = ()
    stream: StreamWrite | None = None
    """What is to be written to the run's stream; refused, with everything, if somebody else wrote there."""
    view: bytes | None = None
    """What the run shows of itself from now on."""
    settles: Sequence[tuple[str, int]] = ()
    """Reservations of money by their `hold`, and what each cost in micro-units: settled with these entries."""
    spends: bool = False
    """Whether its turn may have reservations of money that are not settled: they end with the turn."""
    compensations: Sequence[NewCompensation] = ()
    dropped: Sequence[str] = ()
    """Compensations that are taken back, by their `ref`."""
    undoing: bool = False
    """Whether the run was cancelled and runs its compensations: their intents are not refused."""
    transactional: bool = False
    """Whether an author's own writes are part of this transaction: the effect happens here, so here it is refused."""

    @property
    def has_intent(self) -> bool:
        """Whether it must be refused once cancel was asked (G12): it makes an effect or a child possible, or is one.

        Only what a cancelled run undoes may still start.
        """
        if self.undoing:
            return False
        for entry in self.entries:  # a plain loop: this is asked of every step
            if entry.kind is Kind.INTENT:
                return True
        if self.messages and any(message.kind.spawns for message in self.messages):
            return True
        return self.transactional

    @property
    def hot(self) -> bool:
        """Whether it is entries and the signals they consume, nothing else: one statement, no index of `runs` touched."""
        return self.after is State.RUNNING and not (
            self.state_body is not None
            or self.waits
            or self.closes
            or self.over
            or self.rows
            or self.compensations
            or self.dropped
            or self.messages
            or self.replies
            or self.looked
            or self.blobs
            or self.stream is not None
            or self.view is not None
            or self.not_before
            or self.settles
            or self.spends
            or self.transactional
        )


_ENDS_WELL = frozenset({State.COMPLETED, State.FAILED})


def broken_rule(proposal: Proposal) -> str | None:
    """Return which rule a proposal breaks, or None. A broken one is a defect of torpor, never of a user.

    Every commit writes at least one entry: one without was applied twice when its answer was lost (G3).
    """
    if not proposal.entries:
        return "G3: a commit without an entry cannot be told apart from its repetition"
    if proposal.after is not State.RUNNING and not may_follow(State.RUNNING, proposal.after):
        return f"G1: a running run cannot become {proposal.after.word}"
    if proposal.undoing and (proposal.after in _ENDS_WELL or proposal.state_body is not None):
        return "G12: a run that undoes what it did ends as cancelled"
    checkpoints = 0
    for entry in proposal.entries:
        if entry.kind is Kind.CHECKPOINT:
            checkpoints += 1
    if checkpoints != (proposal.state_body is not None):
        return "G9: a checkpoint's entry and its state travel together"
    return None
