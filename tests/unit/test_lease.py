"""Leases: the fence, the reaper, renewals, and what a lost answer means."""

from __future__ import annotations

from itertools import product

import pytest

from torpor.core.journal import Entry, Kind, Stored
from torpor.core.lease import Fence, Lease, LostAnswer, Proof, after_lost_answer, fence, reapable, stranger_wrote
from torpor.core.run import Flag

ROW = Lease(run_id=1, token=77, epoch=3, head=5, worker=9, expires_at=1000, flags=Flag.NONE)
ENTRIES = [Entry(Kind.WAIT, "m:go#1", None), Entry(Kind.WAIT, "t:sleep#1", None)]
THERE = [Stored(6, 0, 3, *ENTRIES[0]), Stored(7, 0, 3, *ENTRIES[1])]


def fenced(row: Lease | None, *, has_intent: bool = False) -> Fence:
    """Ask the fence as the holder of ROW."""
    return fence(row, token=77, epoch=3, head=5, has_intent=has_intent)


def test_the_fence_holds_for_the_holder() -> None:
    """Equal token, epoch and head; an equal worker is not asked for (G1)."""
    assert fenced(ROW) is Fence.HOLDS
    assert fenced(ROW._replace(worker=10)) is Fence.HOLDS


@pytest.mark.parametrize("row", [None, ROW._replace(token=78), ROW._replace(epoch=4), ROW._replace(head=6)])
def test_the_fence_refuses_everybody_else(row: Lease | None) -> None:
    """One difference is enough (G1, G2)."""
    assert fenced(row) is Fence.LOST


def test_the_fence_does_not_ask_for_time() -> None:
    """While nobody reaped, the same epoch may go on."""
    assert fenced(ROW._replace(expires_at=0)) is Fence.HOLDS


def test_after_cancel_no_intent_passes() -> None:
    """Anything else does, so that a run can still write down how it ends (G12); a stranger learns nothing of it."""
    cancelled = ROW._replace(flags=Flag.CANCEL | Flag.PERSON)
    assert fenced(cancelled, has_intent=True) is Fence.CANCELLED
    assert fenced(cancelled) is Fence.HOLDS
    assert fenced(cancelled._replace(epoch=4), has_intent=True) is Fence.LOST
    assert fenced(ROW._replace(flags=Flag.PERSON), has_intent=True) is Fence.HOLDS


def test_a_stranger_is_seen_only_with_nothing_in_flight() -> None:
    """A commit in flight moves the head before its answer is here (G2)."""
    assert stranger_wrote(6, sent_head=5, in_flight=False)
    assert not stranger_wrote(6, sent_head=5, in_flight=True)
    assert not stranger_wrote(5, sent_head=5, in_flight=False)


@pytest.mark.parametrize(
    ("proof", "open_intent", "expired", "quiet"), list(product(Proof, [True, False], [True, False], [True, False]))
)
def test_reapable(*, proof: Proof, open_intent: bool, expired: bool, quiet: bool) -> None:
    """A dead process at once; in quiet nobody else; a lost lock only without an open intent; time ends every lease."""
    now = 1000 if expired else 999
    expected = proof is Proof.PROCESS_GONE or (
        not quiet and (expired or (proof is Proof.LOCK_GONE and not open_intent))
    )
    asked = reapable(ROW, now=now, proof=proof, open_intent=open_intent, quiet_until=now + 1 if quiet else now)
    assert asked is expected


def answered(lease: Lease | None, there: list[Stored], *, ends_stretch: bool = False) -> LostAnswer:
    """Ask about ENTRIES, sent at head 5 under ROW's lease."""
    return after_lost_answer(lease, there, token=77, epoch=3, head=5, entries=ENTRIES, ends_stretch=ends_stretch)


def test_head_unmoved() -> None:
    """Mine: send it again. Not mine any more: lost."""
    assert answered(ROW, []) is LostAnswer.SEND_AGAIN
    assert answered(ROW._replace(token=78), []) is LostAnswer.LEASE_LOST
    assert answered(ROW._replace(epoch=4), []) is LostAnswer.LEASE_LOST
    assert answered(None, []) is LostAnswer.LEASE_LOST


def test_it_happened() -> None:
    """My epoch and content, the head exactly theirs, the lease mine (G3)."""
    assert answered(ROW._replace(head=7), THERE) is LostAnswer.HAPPENED


@pytest.mark.parametrize(
    ("lease", "there"),
    [
        (None, THERE),
        (ROW._replace(head=7, token=78), THERE),
        (ROW._replace(head=7, epoch=4), THERE),
        (ROW._replace(head=8), [*THERE, THERE[0]._replace(seq=8)]),
        (ROW._replace(head=8), THERE),
        (ROW._replace(head=6), THERE[:1]),
        (ROW._replace(head=7), [entry._replace(epoch=4) for entry in THERE]),
        (ROW._replace(head=7), [THERE[0], THERE[1]._replace(epoch=2)]),
        (ROW._replace(head=7), [THERE[0], THERE[1]._replace(body=b"x")]),
        (ROW._replace(head=7), THERE[::-1]),
    ],
)
def test_anything_else_is_lost(lease: Lease | None, there: list[Stored]) -> None:
    """Another's lease, another epoch's identical entries, more or fewer of them, other content."""
    assert answered(lease, there) is LostAnswer.LEASE_LOST


def test_a_commit_that_ended_the_stretch() -> None:
    """It took the lease with it; if the lease is still mine, somebody with my epoch wrote something else."""
    assert answered(None, THERE, ends_stretch=True) is LostAnswer.HAPPENED
    assert answered(ROW._replace(token=78, epoch=4), THERE, ends_stretch=True) is LostAnswer.HAPPENED
    assert answered(ROW._replace(head=7), THERE, ends_stretch=True) is LostAnswer.LEASE_LOST
    assert answered(ROW, [], ends_stretch=True) is LostAnswer.SEND_AGAIN
    assert answered(None, [], ends_stretch=True) is LostAnswer.LEASE_LOST
