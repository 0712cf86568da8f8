"""Leases: who may write, who may be thought dead, and what a lost answer means.

The protocol, as each party may believe it:

*The leaseholder* holds (run, token, epoch, head). A commit is accepted only if the lease row carries exactly these; it
moves the head. Two copies of a worker hold equal values: the first commit at a head wins, the other finds the head
moved (G2). The epoch counts claims; the token is drawn for each claim, because an epoch can be issued again after a
database lost its last commits. Whether `expires_at` has passed is not asked: while nobody reaped, the same epoch may
go on (explored both ways: safe).

*The reaper* may end a lease when its time is over by the database's clock, or when the holder is proven gone. Who
obtains a worker's life lock knows that the holder of the *lock* is gone; only a lock on this host proves that the
*process* is. So runs without an open intent are freed on either proof, runs with one only on the second.

*Whoever lost an answer* opens a new connection, then proves its life lock, then reads, in this order, and then asks
`after_lost_answer`. A digest or a nonce is not enough: another epoch may have committed the identical intent, and a
copy made after a nonce was drawn has it too.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.run import Flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.journal import Entry, Stored

LEASE_SECONDS = 45.0
"""A lease's length. Renewed at a third of it."""


class Lease(NamedTuple):
    """A lease's row: it exists exactly while the run is `running`. `worker` is a row number of `workers`."""

    run_id: int
    token: int
    epoch: int
    head: int
    worker: int
    expires_at: int
    flags: Flag


class Fence(Enum):
    """What a fence says to a write."""

    HOLDS = auto()
    LOST = auto()
    CANCELLED = auto()


def fence(row: Lease | None, *, token: int, epoch: int, head: int, has_intent: bool) -> Fence:
    """Decide whether a leaseholder's write may happen (G1, G2, G12).

    The store's `WHERE` says the same again; `tests/conformance` holds the two against each other.
    """
    if row is None or (row.token, row.epoch, row.head) != (token, epoch, head):
        return Fence.LOST
    if has_intent and Flag.CANCEL in row.flags:
        return Fence.CANCELLED
    return Fence.HOLDS


def stranger_wrote(row_head: int, *, sent_head: int, in_flight: bool) -> bool:
    """Whether a head seen by a renewal means that somebody else is this executor (G2).

    It counts only when no commit of that run is in flight: one in flight moves the head before its answer is here.
    """
    return not in_flight and row_head != sent_head


class Proof(IntEnum):
    """What is known of a lease's holder, weakest first."""

    NONE = 0
    LOCK_GONE = 1
    """The life lock was obtained: whoever held it lost its connection. The process may live."""
    PROCESS_GONE = 2
    """A lock local to this host was obtained: the process itself is gone."""


def reapable(lease: Lease, *, now: int, proof: Proof, open_intent: bool, quiet_until: int) -> bool:
    """Decide whether a lease may be ended by somebody else.

    `quiet_until` is the end of the first lease time after the database started, and of the ticks a reaper waits after a
    gap in its own clocks: a failover or an opened lid must not become a mass reap. A process that is proven gone on this
    host is gone whatever the database did, so that proof alone counts at once.
    """
    if proof is Proof.PROCESS_GONE:
        return True
    if now < quiet_until:
        return False
    if proof is Proof.LOCK_GONE and not open_intent:
        return True
    return lease.expires_at <= now


class LostAnswer(Enum):
    """What to do about a commit whose answer never came (G3)."""

    SEND_AGAIN = auto()
    HAPPENED = auto()
    LEASE_LOST = auto()


def after_lost_answer(
    lease: Lease | None,
    after_head: Sequence[Stored],
    *,
    token: int,
    epoch: int,
    head: int,
    entries: Sequence[Entry],
    ends_stretch: bool,
) -> LostAnswer:
    """Decide from what was read back: the lease now, and every journal entry above `head`.

    It happened only if the entries at that head carry this epoch and content, the head is exactly theirs and the lease
    is still this one (or that commit ended it).
    """
    mine = lease is not None and (lease.token, lease.epoch) == (token, epoch)
    if not after_head:
        return LostAnswer.SEND_AGAIN if mine else LostAnswer.LEASE_LOST
    equal = len(after_head) == len(entries) and all(
        stored.same_as(entry, epoch=epoch) for stored, entry in zip(after_head, entries, strict=True)
    )
    if not equal:
        return LostAnswer.LEASE_LOST
    if ends_stretch:
        return LostAnswer.HAPPENED if not mine else LostAnswer.LEASE_LOST
    whole = mine and lease is not None and lease.head == head + len(entries)
    return LostAnswer.HAPPENED if whole else LostAnswer.LEASE_LOST
