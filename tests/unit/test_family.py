"""Waits for children: all of their ends, consumed at once, counted by those that are still to come."""

from __future__ import annotations

from torpor.core.commit import MessageKind, NewMessage, Proposal
from torpor.core.family import counted, done_name, members_of, pack_members, started_name
from torpor.core.journal import Entry, Kind
from torpor.core.wait import Open, Signal, WaitKind, next_delivery
from torpor.worker.draft import Draft

NAMES = tuple(done_name(child) for child in (7, 9))
BOTH = Open("j:2 children#1", WaitKind.CHILDREN, "2 children", names=NAMES)
TIMER = Open("t:#1", WaitKind.TIMER, due_at=50)


def _ends(*children: tuple[int, int]) -> list[Signal]:
    return [Signal(n, at, done_name(child), b"1") for n, (child, at) in enumerate(children, start=1)]


def test_nothing_is_taken_before_the_last_end() -> None:
    """One of two is not enough; with both, each is taken, in the order of the names, as of the later one."""
    assert next_delivery([BOTH], _ends((9, 10)), now=99) is None
    found = next_delivery([BOTH], _ends((9, 10), (7, 20)), now=99)
    assert found is not None
    assert [signal.name for signal in found.signals] == [*NAMES]
    assert found.at == 20


def test_ends_race_a_timer_by_the_last_of_them() -> None:
    """A timer between the two is first; one after both is not; at the same moment the ends win (G7)."""
    waits = [BOTH, TIMER]
    for last, first in ((60, TIMER), (40, BOTH), (50, BOTH)):
        found = next_delivery(waits, _ends((9, 10), (7, last)), now=99)
        assert found is not None
        assert found.wait == first, last


def test_an_older_wait_gets_the_end() -> None:
    """Two waits that share a child: the younger takes nothing from the older."""
    one = Open("j:a#1", WaitKind.CHILD, "a", names=NAMES[:1])
    found = next_delivery([BOTH, one], _ends((9, 10), (7, 20)), now=99)
    assert found is not None
    assert found.wait == BOTH


def test_a_wait_counts_what_is_still_to_come() -> None:
    """The ends that are here are not needed any more; all children are named, in order; a start counts nothing."""
    need, members = counted(NAMES, {NAMES[1], "other"})
    assert (need, members_of(members)) == (1, frozenset({7, 9}))
    assert members == pack_members([9, 7])
    assert counted((started_name("k"),), ()) == (0, None)
    assert members_of(None) == frozenset()


def test_a_start_is_refused_once_cancel_was_asked() -> None:
    """It makes a child possible, so it counts as an intent does; a signal to another run does not (G12)."""
    entries = [Entry(Kind.WAIT, "p:audit#1", b"{}")]
    for kind, forbidden in (
        (MessageKind.SIGNAL, False),
        (MessageKind.SPAWN, True),
        (MessageKind.SPAWN_INDEPENDENT, True),
    ):
        message = NewMessage(0, "audit", "k", b"1", kind)
        assert Proposal(1, 1, 1, 0, entries, messages=[message]).has_intent is forbidden


def test_only_results_keep_what_they_sent() -> None:
    """What is said to be sent is sent, also in a drain; a start that is not in the journal yet is dropped with its entry."""
    draft = Draft([Entry(Kind.OUTCOME, "x:go#1", None), Entry(Kind.WAIT, "p:audit#1", b"{}")])
    sent = NewMessage(2, "go", "k1", b"1")
    draft.messages = [sent, NewMessage(0, "audit", "k2", b"1", MessageKind.SPAWN)]
    kept = draft.only_results()
    assert [entry.key for entry in kept.entries] == ["x:go#1"]
    assert list(kept.messages) == [sent]
