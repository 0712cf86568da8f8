"""Proposals: the rules that need no store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torpor.core.commit import Blob, NewCompensation, NewMessage, NewRow, NewWait, Proposal, broken_rule
from torpor.core.journal import Entry, Kind
from torpor.core.run import State
from torpor.core.wait import WaitKind

OUTCOME = Entry(Kind.OUTCOME, "s:one#1", b"1")
INTENT = Entry(Kind.INTENT, "e:pay#1", b"args")
CHECKPOINT = Entry(Kind.CHECKPOINT, None, None)
PLAIN = Proposal(run_id=1, token=77, epoch=3, head=5, entries=[OUTCOME])


def test_a_plain_proposal_breaks_no_rule() -> None:
    """One entry is enough."""
    assert broken_rule(PLAIN) is None


def test_every_commit_writes_an_entry() -> None:
    """One without could be applied twice (G3)."""
    assert "G3" in (broken_rule(replace(PLAIN, entries=[])) or "")


@pytest.mark.parametrize("after", list(State))
def test_what_a_running_run_may_become(after: State) -> None:
    """Anything but what it cannot be made by its own holder; `running` means that it goes on."""
    assert broken_rule(replace(PLAIN, after=after)) is None


@pytest.mark.parametrize(
    ("entries", "state_body", "whole"),
    [
        ([CHECKPOINT], b"state", True),
        ([OUTCOME, CHECKPOINT], b"", True),
        ([CHECKPOINT], None, False),
        ([OUTCOME], b"state", False),
        ([CHECKPOINT, CHECKPOINT], b"state", False),
    ],
)
def test_a_checkpoint_has_its_state(*, entries: list[Entry], state_body: bytes | None, whole: bool) -> None:
    """One entry, one state, together (G9)."""
    broken = broken_rule(replace(PLAIN, entries=entries, state_body=state_body))
    assert (broken is None) is whole
    assert whole or "G9" in (broken or "")


def test_what_is_refused_once_cancel_was_asked() -> None:
    """An intent, and an effect that happens in this very transaction (G12)."""
    assert not PLAIN.has_intent
    assert replace(PLAIN, entries=[OUTCOME, INTENT]).has_intent
    assert replace(PLAIN, transactional=True).has_intent
    for compensating in (
        replace(PLAIN, entries=[INTENT], undoing=True),
        replace(PLAIN, transactional=True, undoing=True),
    ):
        assert not compensating.has_intent


@pytest.mark.parametrize("after", list(State))
def test_who_undoes_ends_as_cancelled(after: State) -> None:
    """What may start after a cancel cannot end the run well, nor begin another turn (G12)."""
    broken = broken_rule(replace(PLAIN, entries=[OUTCOME], after=after, undoing=True))
    assert (broken is None) is (after not in {State.COMPLETED, State.FAILED})
    assert broken_rule(replace(PLAIN, entries=[CHECKPOINT], state_body=b"", undoing=True)) is not None


def test_hot_is_entries_and_nothing_else() -> None:
    """Anything that travels with them needs more than one statement."""
    assert PLAIN.hot
    assert replace(PLAIN, entries=[OUTCOME, INTENT]).hot
    assert replace(PLAIN, taken=[1]).hot
    for more in (
        replace(PLAIN, after=State.WAITING),
        replace(PLAIN, entries=[CHECKPOINT], state_body=b""),
        replace(PLAIN, waits=[NewWait(0, 1, WaitKind.MESSAGE, None, "")]),
        replace(PLAIN, closes=[(0, 4)]),
        replace(PLAIN, over=[0]),
        replace(PLAIN, compensations=[NewCompensation("k:refund#1", "1:k:refund#1", b"")]),
        replace(PLAIN, dropped=["1:k:refund#1"]),
        replace(PLAIN, rows=[NewRow("done", 0, b"")]),
        replace(PLAIN, messages=[NewMessage(2, "go", "k", b"")]),
        replace(PLAIN, blobs=[Blob(b"d", b"b")]),
        replace(PLAIN, not_before=1),
        replace(PLAIN, transactional=True),
    ):
        assert not more.hot
