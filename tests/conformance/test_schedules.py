"""The verbs about schedules, the same on every store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.meeting import Beside, Held
from torpor.core.schedule import Fate
from torpor.errors import UsageError
from torpor.store.rows import ScheduleRow, SlotRow

if TYPE_CHECKING:
    from tests.stores import Place
    from torpor.store.protocol import Store


def schedule(name: str, due_at: int | None = 100, **more: Any) -> ScheduleRow:
    """Return a row to be written."""
    row = ScheduleRow(0, name, "audit", "{}", b"\x00\xff", "default", -3, 1, 5, 6, 7, due_at, due_at)
    return row._replace(**more)


def put(store: Store, *rows: ScheduleRow) -> list[ScheduleRow]:
    """Write rows, and return them with their numbers."""
    store.transact_now(lambda tx: tx.insert_schedules(rows))
    found = store.transact_now(lambda tx: tx.get_schedules([row.name for row in rows]))
    return [found[row.name] for row in rows]


def test_a_row_comes_back_as_it_was(store: Store) -> None:
    """Every column; a change overwrites what may change."""
    row = schedule("report", paused_at=9, paused_by="ada")
    [written] = put(store, row)
    assert written == row._replace(id=written.id)
    changed = ScheduleRow(written.id, "report", "p", "r", b"", "t", 4, 2, 5, 16, 17, None, None, None, None)
    store.transact_now(lambda tx: tx.change_schedules([changed]))
    assert store.transact_now(lambda tx: tx.get_schedules(["report", "other"])) == {"report": changed}


def test_a_name_is_taken_once(store: Store) -> None:
    """Who comes second writes nothing and is told."""
    assert store.transact_now(lambda tx: tx.insert_schedules([schedule("a"), schedule("b")])) == {"a", "b"}
    again = [schedule("b", 7), schedule("c")]
    assert store.transact_now(lambda tx: tx.insert_schedules(again)) == {"c"}
    assert store.transact_now(lambda tx: tx.get_schedules(["b"]))["b"].due_at == 100


def test_what_is_due_comes_first(store: Store) -> None:
    """By due time, bounded, never one that is paused; names in the order of their letters on every store."""
    put(store, schedule("b", 30), schedule("B", 10), schedule("é", None), schedule("a-1", 20), schedule("a", 40))
    due = store.transact_now(lambda tx: tx.due_schedules(before=30, limit=2))
    assert [row.name for row in due] == ["B", "a-1"]
    assert store.transact_now(lambda tx: tx.next_slot_due()) == 10
    names = [row.name for row in store.transact_now(lambda tx: tx.list_schedules(after="", limit=9))]
    assert names == ["B", "a", "a-1", "b", "é"]
    assert [r.name for r in store.transact_now(lambda tx: tx.list_schedules(after="a", limit=1))] == ["a-1"]


def test_nothing_is_due_in_an_empty_store(store: Store) -> None:
    """No schedule, no moment."""
    assert store.transact_now(lambda tx: (tx.next_slot_due(), tx.due_schedules(before=2**60, limit=5))) == (None, [])


def test_slots(store: Store) -> None:
    """Newest first, bounded for each; gone with their schedule, and a slot has one fate."""
    one, two = put(store, schedule("a"), schedule("b"))
    rows = [SlotRow(one.id, n, n, 5, 1, Fate.FIRED, "", n) for n in (1, 3, 2)]
    other = SlotRow(two.id, 1, 9, 5, 10_000, Fate.SKIPPED, "paused\x00", None, extra=True)
    store.transact_now(lambda tx: tx.add_slots([*rows, other]))
    found = store.transact_now(lambda tx: tx.newest_slots([one.id, two.id], limit=2))
    assert found == {one.id: [rows[1], rows[2]], two.id: [other._replace(reason="paused\ufffd")]}
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        store.transact_now(lambda tx: tx.add_slots([rows[0]._replace(fate=Fate.SKIPPED)]))
    store.transact_now(lambda tx: tx.drop_schedules([one.id]))
    assert store.transact_now(lambda tx: tx.get_schedules(["a", "b"])).keys() == {"b"}
    assert store.transact_now(lambda tx: tx.newest_slots([one.id, two.id], limit=9))[one.id] == []


def test_names_that_no_store_keeps(store: Store) -> None:
    """U+0000 is refused before anything is written."""
    with pytest.raises(UsageError, match="U\\+0000"):
        store.transact_now(lambda tx: tx.insert_schedules([schedule("a\x00b")]))


def test_what_another_has_locked_is_left_out(on_server: Place) -> None:
    """A sweep skips it; whoever must have it waits and sees what the other did."""
    mine, other = on_server.open(), on_server.open()
    one, two = put(mine, schedule("a"), schedule("b"))
    held = Held(
        mine,
        lambda tx: tx.get_schedules(["a"], lock=True),
        lambda tx: tx.change_schedules([one._replace(revision=2)]),
    )
    free = other.transact_now(lambda tx: tx.get_schedules(["a", "b"], lock=True, skip_locked=True))
    assert free == {"b": two}
    waiting = Beside(lambda: other.transact_now(lambda tx: tx.get_schedules(["a"], lock=True)))
    on_server.blocked()
    held.result()
    assert waiting.result()["a"].revision == 2
