"""Effects: what may be done again, the gate, the key."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.core.effect import (
    After,
    Gate,
    Resume,
    Safety,
    after_exception,
    effect_key,
    gate,
    may_do_again,
    on_resume,
)
from torpor.core.lease import Lease
from torpor.core.run import Flag

ROW = Lease(run_id=1, token=77, epoch=3, head=5, worker=9, expires_at=1000, flags=Flag.NONE)


def test_who_writes_an_intent_and_who_asks_the_life_lock() -> None:
    """Three safeties have an intent; the two that must not start twice ask the life lock as well (G4)."""
    assert {safety for safety in Safety if safety.has_intent} == {Safety.KEYED, Safety.VERIFY, Safety.ONCE}
    assert {safety for safety in Safety if safety.asks_life_lock} == {Safety.VERIFY, Safety.ONCE}


@pytest.mark.parametrize(("safety", "intent", "holder_gone"), list(product(Safety, [True, False], [True, False])))
def test_an_outcome_is_used(*, safety: Safety, intent: bool, holder_gone: bool) -> None:
    """Whatever the safety: what is recorded is not done again (G3)."""
    assert on_resume(safety, intent=intent, outcome=True, holder_gone=holder_gone) is Resume.USE


@pytest.mark.parametrize(("safety", "holder_gone"), list(product(Safety, [True, False])))
def test_without_an_intent_it_runs(*, safety: Safety, holder_gone: bool) -> None:
    """Nothing was begun that could have happened."""
    assert on_resume(safety, intent=False, outcome=False, holder_gone=holder_gone) is Resume.RUN


@pytest.mark.parametrize(
    ("safety", "holder_gone", "what"),
    [
        (Safety.KEYED, False, Resume.RUN),
        (Safety.KEYED, True, Resume.RUN),
        (Safety.VERIFY, True, Resume.ASK),
        (Safety.VERIFY, False, Resume.UNKNOWN),
        (Safety.ONCE, True, Resume.UNKNOWN),
        (Safety.ONCE, False, Resume.UNKNOWN),
    ],
)
def test_an_intent_alone(*, safety: Safety, holder_gone: bool, what: Resume) -> None:
    """By safety; `verify` proves nothing while the earlier holder may be about to start (G4)."""
    assert on_resume(safety, intent=True, outcome=False, holder_gone=holder_gone) is what
    assert may_do_again(holder_gone=holder_gone) is holder_gone


def test_only_once_is_unknown_after_an_exception() -> None:
    """Unless it says that it certainly did not happen."""
    assert after_exception(Safety.ONCE, not_done=False) is After.UNKNOWN
    assert after_exception(Safety.ONCE, not_done=True) is After.FAILED
    assert after_exception(Safety.KEYED, not_done=False) is After.FAILED


@pytest.mark.parametrize(
    ("row", "same", "locked", "said"),
    [
        (ROW, True, True, Gate.GO),
        (ROW, False, True, Gate.STOP),
        (ROW, True, False, Gate.STOP),
        (None, True, True, Gate.STOP),
        (ROW._replace(token=78), True, True, Gate.STOP),
        (ROW._replace(head=6), True, True, Gate.STOP),
        (ROW._replace(flags=Flag.CANCEL), True, True, Gate.CANCELLED),
        (ROW._replace(flags=Flag.CANCEL), True, False, Gate.STOP),
        (ROW._replace(flags=Flag.CANCEL, epoch=4), True, True, Gate.STOP),
    ],
)
def test_gate(*, row: Lease | None, same: bool, locked: bool, said: Gate) -> None:
    """Lease, head, cancel, incarnation and life lock (G2, G4, G12)."""
    asked = gate(row, token=77, epoch=3, head=5, same_incarnation=same, life_lock_held=locked)
    assert asked is said
    undoing = gate(row, token=77, epoch=3, head=5, same_incarnation=same, life_lock_held=locked, undoing=True)
    assert undoing is (Gate.GO if said is Gate.CANCELLED else said), "a cancel stops no compensation, all else does"


calls = st.tuples(st.integers(1, 2**40), st.integers(0, 9), st.integers(0, 10**6), st.text(max_size=12))


@given(calls, calls)
def test_a_key_is_a_call(one: tuple[int, int, int, str], other: tuple[int, int, int, str]) -> None:
    """Equal for the same call, different for any other: run, branch, turn and call all count (G5)."""
    assert (effect_key(*one) == effect_key(*other)) is (one == other)


def test_a_key_never_changes() -> None:
    """A key is written down at the far side: a release of torpor that derived it differently would repeat effects."""
    assert effect_key(1, 0, 1, "e:pay#1") == "a4eedeae6f2c02e8e55ad38b280b8e27"
