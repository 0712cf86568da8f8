"""Replay: what was recorded is delivered in journal order, and code that changed is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.core.journal import Entry, Kind, Stored
from torpor.core.replay import Call, CallKind, Record, Replay, call_key, kind_of, name_of, shown

SCAN = Call(CallKind.STEP, "scan", b"\x01\x02")
SCAN_OTHER = Call(CallKind.STEP, "scan", b"\x03\x04")
PAY = Call(CallKind.EFFECT, "pay", b"\x01\x02")
PAY_MORE = Call(CallKind.EFFECT, "pay", b"\x09\x09")
SLEEP = Call(CallKind.TIMER, "sleep")
GO = Call(CallKind.MESSAGE, "go")
NOW = Call(CallKind.VALUE, "now")


def journal(*entries: tuple[Kind, Call, int] | Entry) -> list[Stored]:
    """Number entries from 1; `(kind, call, occurrence)` stands for an entry of that call."""
    rows = [e if isinstance(e, Entry) else Entry(e[0], call_key(e[1], e[2]), b"") for e in entries]
    return [Stored(seq, 0, 1, *row) for seq, row in enumerate(rows, start=1)]


def drain(replay: Replay) -> list[str]:
    """Take what can be delivered now."""
    return [record.key for record in iter(replay.next, None)]


# ---- keys


@pytest.mark.parametrize(
    ("call", "occurrence", "key"),
    [
        (SCAN, 1, "s:scan#1~0102"),
        (SCAN, 12, "s:scan#12~0102"),
        (SLEEP, 2, "t:sleep#2"),
        (PAY._replace(step_id="order-7"), 3, "e:pay@order-7"),
        (Call(CallKind.MESSAGE, "orders@paid"), 1, "m:orders@paid#1"),
    ],
)
def test_keys(call: Call, occurrence: int, key: str) -> None:
    """Kind, name, occurrence and digest; a step_id replaces counting."""
    assert call_key(call, occurrence) == key
    assert kind_of(key) is call.kind
    assert name_of(key) == call.name


def test_people_see_neither_kind_nor_digest() -> None:
    """`scan#1`, not its digest."""
    assert shown(call_key(SCAN, 1)) == "scan#1"
    assert shown(call_key(SLEEP, 2)) == "sleep#2"
    assert shown("e:pay@order-7") == "pay@order-7"


calls = st.builds(
    Call,
    st.sampled_from(CallKind),
    st.sampled_from(["a", "b", "a_b"]),
    st.sampled_from([b"", b"\x00", b"\x01\xff"]),
    st.just(""),
)


@given(calls, st.integers(1, 30), calls, st.integers(1, 30))
def test_different_calls_have_different_keys(one: Call, first: int, other: Call, second: int) -> None:
    """A key is a call and its place among equals, and nothing else."""
    assert (call_key(one, first) == call_key(other, second)) is ((one, first) == (other, second))


# ---- delivery


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[Call], list[tuple[Call, int]], int]:
    """Calls in the order code makes them, the order they were resolved in, and how many were resolved before the crash."""
    made = draw(st.lists(st.sampled_from([SCAN, SCAN_OTHER, PAY, SLEEP, GO]), min_size=1, max_size=8))
    counts: dict[Call, int] = {}
    numbered = []
    for call in made:
        counts[call] = counts.get(call, 0) + 1
        numbered.append((call, counts[call]))
    resolved = draw(st.permutations(numbered))
    return made, resolved, draw(st.integers(0, len(resolved)))


KIND = {
    CallKind.STEP: Kind.OUTCOME,
    CallKind.EFFECT: Kind.FAILURE,
    CallKind.TIMER: Kind.CONSUMED,
    CallKind.MESSAGE: Kind.CONSUMED,
}


@given(turns())
def test_parallel_calls_are_delivered_in_journal_order(turn: tuple[list[Call], list[tuple[Call, int]], int]) -> None:
    """Code that asks for everything at once meets its results in the order it met them the first time."""
    made, resolved, count = turn
    recorded = journal(*((KIND[call.kind], call, n) for call, n in resolved[:count]))
    replay = Replay(recorded)
    for call in made:
        replay.ask(call)
    assert drain(replay) == [entry.key for entry in recorded]
    assert replay.exhausted
    assert replay.left_behind() is None


@given(turns())
def test_nothing_is_delivered_before_it_is_asked_for(turn: tuple[list[Call], list[tuple[Call, int]], int]) -> None:
    """Code that asks one call at a time gets each result once, in journal order, and never a later one first."""
    made, resolved, count = turn
    recorded = journal(*((KIND[call.kind], call, n) for call, n in resolved[:count]))
    replay = Replay(recorded)
    asked: set[str] = set()
    delivered: list[str] = []
    for call in made:
        asked.add(replay.ask(call).key)
        delivered += drain(replay)
        assert set(delivered) <= asked
        rest = [entry.key for entry in recorded[len(delivered) :]]
        assert not rest or rest[0] not in asked
    assert delivered == [entry.key for entry in recorded]


def test_one_at_a_time() -> None:
    """Each `next` hands out one record, so that code can run until it is idle in between."""
    replay = Replay(journal((Kind.CONSUMED, GO, 1), (Kind.OUTCOME, SCAN, 1)))
    replay.ask(SCAN)
    assert replay.next() is None
    replay.ask(GO)
    first = replay.next()
    assert first is not None
    assert (first.key, first.delivered, replay.exhausted) == (call_key(GO, 1), True, False)
    assert drain(replay) == [call_key(SCAN, 1)]
    assert replay.exhausted


def test_the_first_that_resolves_a_call_counts() -> None:
    """A second outcome of one call changes nothing (G18)."""
    late = [*journal((Kind.OUTCOME, SCAN, 1)), Stored(2, 0, 1, Kind.FAILURE, call_key(SCAN, 1), b"late")]
    replay = Replay(late)
    record = replay.ask(SCAN).record
    assert record is not None
    assert record.resolved == late[0]
    assert len(drain(replay)) == 1


def test_a_record_knows_its_intents_wait_and_notes() -> None:
    """What a resumed effect needs to decide (G4)."""
    replay = Replay(journal((Kind.INTENT, PAY, 1), (Kind.NOTE, PAY, 1), (Kind.INTENT, PAY, 1), (Kind.WAIT, PAY, 1)))
    record = replay.ask(PAY).record
    assert record is not None
    assert record.started
    assert [entry.seq for entry in record.intents] == [1, 3]
    assert [entry.seq for entry in record.notes] == [2]
    assert record.wait is not None
    assert record.wait.seq == 4
    assert record.resolved is None
    assert replay.exhausted


def test_an_empty_journal_answers_nothing() -> None:
    """A new turn: equal calls are still counted."""
    replay = Replay([])
    assert [replay.ask(SCAN).key for _ in range(3)] == [call_key(SCAN, n) for n in (1, 2, 3)]
    assert replay.exhausted
    assert replay.left_behind() is None


def test_entries_without_a_key_belong_to_no_call() -> None:
    """A note of the run itself is not waited for."""
    replay = Replay(journal(Entry(Kind.NOTE, None, b"park"), (Kind.OUTCOME, SCAN, 1)))
    replay.ask(SCAN)
    assert len(drain(replay)) == 1
    assert replay.left_behind() is None


# ---- divergence


def left_key(record: Record | None) -> str:
    """Return the key of what was left behind."""
    assert record is not None
    return record.key


def test_an_effect_with_other_arguments_diverges_before_it_starts() -> None:
    """Both sides are known."""
    replay = Replay(journal((Kind.INTENT, PAY, 1)))
    asked = replay.ask(PAY_MORE)
    assert asked.record is None
    assert asked.key == call_key(PAY_MORE, 1)
    assert left_key(asked.diverged_from) == call_key(PAY, 1)


def test_an_effect_under_another_step_id_diverges() -> None:
    """The recorded one was never asked for, so it may be the same under a new name."""
    replay = Replay(journal((Kind.OUTCOME, PAY._replace(step_id="order-7"), 1)))
    assert left_key(replay.ask(PAY._replace(step_id="order-8")).diverged_from) == "e:pay@order-7"


def test_a_second_effect_of_a_name_is_no_divergence_once_the_first_was_asked_for() -> None:
    """A turn may pay twice, different amounts."""
    replay = Replay(journal((Kind.OUTCOME, PAY, 1)))
    replay.ask(PAY)
    asked = replay.ask(PAY_MORE)
    assert asked.record is None
    assert asked.diverged_from is None


def test_a_step_with_other_arguments_is_noticed_when_code_is_idle() -> None:
    """A repeatable step is no danger by itself; what it leaves behind is."""
    replay = Replay(journal((Kind.OUTCOME, SCAN, 1)))
    assert replay.ask(SCAN_OTHER).diverged_from is None
    assert replay.next() is None
    assert left_key(replay.left_behind()) == call_key(SCAN, 1)


@pytest.mark.parametrize(
    ("kind", "call"), [(Kind.INTENT, PAY), (Kind.WAIT, GO), (Kind.CONSUMED, SLEEP), (Kind.OUTCOME, SCAN)]
)
def test_what_may_not_stay_behind(kind: Kind, call: Call) -> None:
    """Intents, open waits and everything that resolved a call."""
    assert left_key(Replay(journal((kind, call, 1))).left_behind()) == call_key(call, 1)


def test_what_may_stay_behind() -> None:
    """Recorded values and notes had no consequence."""
    assert Replay(journal((Kind.NOTE, NOW, 1), (Kind.NOTE, SCAN, 1))).left_behind() is None


def test_a_swapped_race_diverges() -> None:
    """Code that now asks for the loser first still gets the winner first, and code without the winner is stuck with it."""
    replay = Replay(journal((Kind.WAIT, GO, 1), (Kind.WAIT, SLEEP, 1), (Kind.CONSUMED, SLEEP, 1)))
    replay.ask(GO)
    assert replay.next() is None
    assert left_key(replay.left_behind()) == call_key(SLEEP, 1)
    replay.ask(SLEEP)
    assert drain(replay) == [call_key(SLEEP, 1)]
    assert replay.left_behind() is None
