"""The states of a run and what may follow what."""

from __future__ import annotations

from itertools import product

import pytest

from torpor.core.run import FOLLOWS, Flag, State, may_follow, parked_as


def test_the_table_knows_every_state() -> None:
    """No state is missing, and an ended one is followed by nothing, unless a person retries a failed one."""
    assert set(FOLLOWS) == set(State)
    assert {state for state in State if state.final} == {State.COMPLETED, State.FAILED, State.CANCELLED}
    after_an_end = {(before, after) for before, after in product(State, State) if before.final}
    assert {both for both in after_an_end if may_follow(*both)} == {(State.FAILED, State.READY)}


def test_only_a_claim_makes_a_run_running() -> None:
    """`running` follows `ready` and nothing else; nothing stays what it is (G1)."""
    assert [before for before in State if may_follow(before, State.RUNNING)] == [State.READY]
    assert not any(may_follow(state, state) for state in State)


def test_only_a_running_run_ends() -> None:
    """Every end goes through a lease."""
    ends = {(before, after) for before, after in product(State, State) if after.final and may_follow(before, after)}
    assert {before for before, _ in ends} == {State.RUNNING}


def test_words() -> None:
    """People see the names in lower case."""
    assert [state.word for state in State] == ["ready", "waiting", "running", "completed", "failed", "cancelled"]


@pytest.mark.parametrize(
    ("inbox", "seen", "cancel", "state"),
    [
        (0, 0, False, State.WAITING),
        (3, 3, False, State.WAITING),
        (4, 3, False, State.READY),
        (3, 3, True, State.READY),
        (4, 3, True, State.READY),
    ],
)
def test_parked_as(*, inbox: int, seen: int, cancel: bool, state: State) -> None:
    """What came unseen, and cancel, keep a run ready (G7, G12)."""
    assert parked_as(inbox=inbox, seen=seen, cancel=cancel) is state
    undoing = parked_as(inbox=inbox, seen=seen, cancel=cancel, undoing=True)
    assert undoing is (State.READY if inbox > seen else State.WAITING)


def test_flags_are_bits() -> None:
    """Flags ride together."""
    assert Flag.CANCEL in Flag.CANCEL | Flag.PERSON
    assert Flag.CANCEL not in Flag.ATTENTION | Flag.PERSON
    assert not Flag.NONE
