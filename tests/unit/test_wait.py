"""Waits: what is consumed next, and when a sweep may wake a run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torpor.core.wait import Delivery, Open, Signal, WaitKind, due_at, may_fire, next_delivery

GO = Open("m:go#1", WaitKind.MESSAGE, "go")
GO_TOO = Open("m:go#2", WaitKind.MESSAGE, "go")
STOP = Open("m:stop#1", WaitKind.MESSAGE, "stop")
TIMER = Open("t:sleep#1", WaitKind.TIMER, due_at=100)
ASKED = Open("a:send#1", WaitKind.APPROVAL, "send", due_at=100)


def go(seq: int, at: int, name: str = "go") -> Signal:
    """A signal."""
    return Signal(seq, at, name, b"")


def test_a_timer_is_never_early() -> None:
    """Due at its very moment, not a microsecond before (G8)."""
    assert next_delivery([TIMER], [], now=99) is None
    assert next_delivery([TIMER], [], now=100) == Delivery(TIMER, 100)


def test_the_earlier_wins() -> None:
    """By the time it happened, not by the time it was looked at."""
    assert next_delivery([TIMER, GO], [go(1, 99)], now=500) == Delivery(GO, 99, signal=go(1, 99))
    assert next_delivery([TIMER, GO], [go(1, 101)], now=500) == Delivery(TIMER, 100)


def test_at_the_same_moment_a_signal_or_a_decision_beats_the_timer() -> None:
    """What arrived counts more than that time passed."""
    assert next_delivery([TIMER, GO], [go(1, 100)], now=500) == Delivery(GO, 100, signal=go(1, 100))
    decided = ASKED._replace(answered_at=100, answer=b"yes")
    assert next_delivery([TIMER, decided], [], now=500) == Delivery(decided, 100, decided=True)


def test_an_approval_expires_unless_it_was_decided() -> None:
    """A decision on the row wins over an expiry that came later; expiry alone is time (G10)."""
    assert next_delivery([ASKED], [], now=100) == Delivery(ASKED, 100)
    decided = ASKED._replace(answered_at=50)
    assert next_delivery([decided], [], now=100) == Delivery(decided, 50, decided=True)


def test_the_older_wait_gets_the_older_signal() -> None:
    """And the younger wait gets nothing meanwhile, however many signals lie there (G7)."""
    unread = [go(1, 10), go(2, 20)]
    assert next_delivery([GO, GO_TOO], unread, now=500) == Delivery(GO, 10, signal=unread[0])
    assert next_delivery([GO_TOO], unread[1:], now=500) == Delivery(GO_TOO, 20, signal=unread[1])


def test_the_order_of_arrival_is_the_number_not_the_clock() -> None:
    """A store's clock may step back between two signals; the first to arrive is still the first (G7)."""
    unread = [go(1, 50), go(2, 10)]
    assert next_delivery([GO], unread, now=500) == Delivery(GO, 50, signal=unread[0])


def test_a_signal_of_another_name_satisfies_nothing() -> None:
    """Names are compared."""
    assert next_delivery([STOP], [go(1, 10)], now=500) is None
    assert next_delivery([], [go(1, 10)], now=500) is None


waits = st.lists(
    st.sampled_from([GO, GO_TOO, STOP, TIMER, ASKED, TIMER._replace(key="t:sleep#2", due_at=30)]), unique=True
)
moments = st.integers(0, 120)


@given(waits, st.lists(st.tuples(moments, st.sampled_from(["go", "stop"])), max_size=4), moments)
def test_consuming_one_by_one(open_waits: list[Open], sent: list[tuple[int, str]], now: int) -> None:
    """Whatever is open: nothing is early, nothing is given twice, names keep their order, and it ends."""
    unread = [go(seq, at, name) for seq, (at, name) in enumerate(sent, start=1)]
    left, given_out = list(open_waits), list[Signal]()
    while (found := next_delivery(left, unread, now=now)) is not None:
        left.remove(found.wait)
        if found.signal is None:
            assert found.wait.due_at is not None
            assert found.wait.due_at <= now
        else:
            assert found.signal.name == found.wait.name
            unread.remove(found.signal)
            given_out.append(found.signal)
    for name in ("go", "stop"):
        seqs = [signal.seq for signal in given_out if signal.name == name]
        assert seqs == sorted(seqs)
        assert not (
            any(w.kind is WaitKind.MESSAGE and w.name == name for w in left) and name in {s.name for s in unread}
        )
    assert not any(w.due_at is not None and w.due_at <= now for w in left)


def test_due_at_is_the_least_of_what_is_open() -> None:
    """Decided waits and waits without a time do not count."""
    assert due_at([]) is None
    assert due_at([GO]) is None
    assert due_at([TIMER, GO, ASKED._replace(due_at=50)]) == 50
    assert due_at([TIMER, ASKED._replace(due_at=50, answered_at=1)]) == 100


def test_may_fire() -> None:
    """Only a waiting run whose time has come (G8)."""
    assert may_fire(100, now=100, waiting=True)
    assert not may_fire(100, now=99, waiting=True)
    assert not may_fire(100, now=100, waiting=False)
    assert not may_fire(None, now=100, waiting=True)


def test_who_waits_for_a_person() -> None:
    """Approvals, questions, attention and budgets, nothing else."""
    people = {WaitKind.APPROVAL, WaitKind.QUESTION, WaitKind.ATTENTION, WaitKind.BUDGET}
    assert {kind for kind in WaitKind if kind.for_person} == people
