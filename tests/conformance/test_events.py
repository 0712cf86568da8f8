"""Events, answers to clients, and decisions that came too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.world import populate
from tests.stores import START_AT
from torpor.core.commit import NewReply
from torpor.core.event import EventRow, NewEvent
from torpor.core.wait import TooLate, WaitKind
from torpor.store.rows import NewSignal, WaitRow

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store

LATER = START_AT + 1_000_000


def _event(name: str = "paid", *, matches: tuple[int, ...] = (7,), key: str | None = None) -> NewEvent:
    return NewEvent(name, b"body", matches, LATER, key)


def _wait(run: int, slot: int, match: int, kind: WaitKind = WaitKind.EVENT) -> WaitRow:
    return WaitRow(run, slot, slot + 1, kind, None, None, "t", None, matches=match)


def test_an_event_is_kept_once(store: Store) -> None:
    """An equal name and key is the same event; it is on its way until that is over."""
    first = store.transact_now(lambda tx: tx.add_event(_event(key="k", matches=(-7, 7))))
    assert first[1]
    assert store.transact_now(lambda tx: tx.add_event(_event(key="k"))) == (first[0], False)
    assert store.transact_now(lambda tx: tx.add_event(_event("other", key="k")))[1]
    second = store.transact_now(lambda tx: tx.add_event(_event()))[0]
    row = EventRow(first[0], START_AT, LATER, 0, 0, "paid", "k", b"body")
    assert store.transact_now(lambda tx: tx.get_event(first[0])) == row
    going = store.transact_now(lambda tx: tx.going_events(limit=9, name="paid"))
    assert [event.id for event in going] == [first[0], second]
    store.transact_now(lambda tx: tx.move_event(first[0], reached=12, taken=2))
    assert store.transact_now(lambda tx: tx.going_events(limit=1)) == [row._replace(reached=12, taken=2)]
    store.transact_now(lambda tx: tx.move_event(first[0], reached=None, taken=1))
    assert store.transact_now(lambda tx: tx.going_events(limit=1, name="paid"))[0].id == second
    assert store.transact_now(lambda tx: tx.list_events(limit=1))[0].id == second


def test_who_waits_is_found_by_match(store: Store) -> None:
    """Runs with an open wait of a match, each once, in order; one that is marked or over is not among them."""
    world = populate(store, 4)
    one, two, three, four = world.runs
    waits = [_wait(one, 0, 7), _wait(one, 1, 8), _wait(two, 0, 8), _wait(three, 0, 9)]
    store.transact_now(lambda tx: tx.put_waits([*waits, _wait(four, 0, 7, WaitKind.MESSAGE)]))

    def found(*matches: int, after: int = 0, limit: int = 9) -> list[int]:
        return store.transact_now(lambda tx: tx.runs_waiting_for(matches, after=after, limit=limit))

    assert found(7, 8) == [one, two]
    assert found(7, 8, after=one) == [two]
    assert found(9, 8, 7, limit=2) == [one, two]
    assert found(10) == []
    store.transact_now(lambda tx: (tx.lock_matches([7, 8]), tx.mark_waits([(one, 0, 1), (two, 0, 99)])))
    assert found(7) == []
    assert [w.answered_at for w in store.transact_now(lambda tx: tx.waits([one]))] == [START_AT, None]
    store.transact_now(lambda tx: tx.end_waits([(one, 1)]))
    assert found(8) == [two]


def test_a_later_wait_finds_what_its_run_never_got(store: Store, moment: Moment) -> None:
    """Oldest first, by match, while it is kept."""
    world = populate(store, 2)
    one, two = world.runs
    ids = [store.transact_now(lambda tx: tx.add_event(_event(matches=(7, 8))))[0] for _ in range(3)]
    world.signal(NewSignal(one, "~event:paid", b"1", f"~event:{ids[0]}"))

    def early(run: int, match: int = 7, after: int = 0) -> list[int]:
        found = store.transact_now(lambda tx: tx.early_events(match, run, after=after, limit=9))
        return [event.id for event in found]

    assert early(one) == ids[1:]
    assert early(two, 8) == ids
    assert early(two, after=ids[1]) == ids[2:]
    assert early(two, 9) == []
    assert store.transact_now(lambda tx: tx.known_keys(one, [f"~event:{n}" for n in ids])) == {f"~event:{ids[0]}"}
    moment.advance(1)
    assert early(two) == []
    assert store.transact_now(lambda tx: tx.get_event(ids[0])) is None


def test_what_reached_nobody_is_seen_to_expire(store: Store, moment: Moment) -> None:
    """The others are gone at once; in the end it is forgotten as well."""
    ids = [store.transact_now(lambda tx: tx.add_event(_event()))[0] for _ in range(3)]
    store.transact_now(lambda tx: tx.move_event(ids[1], reached=None, taken=1))
    assert store.transact_now(lambda tx: tx.expire_events(limit=9)) == 0
    moment.advance(1)
    assert store.transact_now(lambda tx: tx.expire_events(limit=2)) == 2
    assert store.transact_now(lambda tx: tx.expire_events(limit=2)) == 1
    left = store.transact_now(lambda tx: tx.list_events(limit=9))
    assert [(event.id, event.body, event.reached) for event in left] == [(ids[2], None, None), (ids[0], None, None)]
    assert store.transact_now(lambda tx: tx.going_events(limit=9)) == []
    assert store.transact_now(lambda tx: tx.drop_events(before=LATER, limit=9)) == 0
    assert store.transact_now(lambda tx: tx.drop_events(before=LATER + 1, limit=1)) == 1
    assert store.transact_now(lambda tx: tx.drop_events(before=LATER + 1, limit=9)) == 1


def test_the_first_answer_stays(store: Store, moment: Moment) -> None:
    """Under its key, until it is forgotten."""
    store.transact_now(lambda tx: tx.put_replies([(1, NewReply("a", b"1")), (1, NewReply("b", b"2"))]))
    store.transact_now(lambda tx: tx.put_replies([(1, NewReply("a", b"3"))]))
    assert [store.transact_now(lambda tx, key=key: tx.get_reply(key)) for key in "abc"] == [b"1", b"2", None]
    at = moment.advance(1)
    store.transact_now(lambda tx: tx.put_replies([(1, NewReply("c", b"4"))]))
    assert store.transact_now(lambda tx: tx.drop_replies(before=at, limit=1)) == 1
    assert store.transact_now(lambda tx: tx.drop_replies(before=at, limit=9)) == 1
    assert store.transact_now(lambda tx: tx.get_reply("c")) == b"4"


def test_what_came_too_late_is_on_record(store: Store, moment: Moment) -> None:
    """Of one run, oldest first; words for people keep no U+0000."""
    store.transact_now(lambda tx: tx.add_too_late(TooLate(1, 3, "ben denied\0")))
    at = moment.advance(1)
    store.transact_now(lambda tx: (tx.add_too_late(TooLate(1, 3, "ana denied")), tx.add_too_late(TooLate(2, 1, "x"))))
    found = store.transact_now(lambda tx: tx.too_late(1, limit=9))
    assert found == [TooLate(1, 3, "ben denied\ufffd", START_AT), TooLate(1, 3, "ana denied", at)]
    assert len(store.transact_now(lambda tx: tx.too_late(1, limit=1))) == 1


def test_the_token_key_is_made_with_the_schema(store: Store) -> None:
    """Long enough not to be guessed, and the same for every process."""
    key = store.transact_now(lambda tx: tx.get_meta("token_key"))
    assert key is not None
    assert len(key) == 64
    assert store.transact_now(lambda tx: tx.get_meta("token_key")) == key
