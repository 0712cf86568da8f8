"""The journal and what travels in a commit: checkpoints, rows, messages, blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.world import add, populate
from tests.stores import START_AT
from torpor.core.commit import Blob, NewMessage, NewRow
from torpor.core.journal import Entry, Kind
from torpor.store.rows import NewSignal, StateRow

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store

EVERY_BYTE = bytes(range(256)) * 200


def test_the_journal_is_read_in_pages_and_from_its_end(store: Store) -> None:
    """After a number, up to a limit, in order; or the newest few, in order."""
    world = populate(store, 1)
    lease = world.claim()[0].lease
    world.append([add(lease, *[Entry(Kind.NOTE, f"n{n}", bytes([n])) for n in range(1, 8)])])
    run = lease.run_id

    def numbers(entries: list[object]) -> list[int]:
        return [entry.seq for entry in entries]  # type: ignore[attr-defined]

    assert numbers([*store.transact_now(lambda tx: tx.journal(run))]) == [1, 2, 3, 4, 5, 6, 7]
    assert numbers([*store.transact_now(lambda tx: tx.journal(run, after=2, limit=3))]) == [3, 4, 5]
    assert numbers([*store.transact_now(lambda tx: tx.journal_tail(run, limit=2))]) == [6, 7]
    found = store.transact_now(lambda tx: tx.entries([(run, 3), (run, 99), (run + 1, 1)]))
    assert list(found) == [(run, 3)]
    assert (found[run, 3].key, found[run, 3].body) == ("n3", b"\x03")


def test_bodies_come_back_as_they_were(store: Store) -> None:
    """Every byte, nothing at all, and no body are three different things."""
    world = populate(store, 1)
    lease = world.claim()[0].lease
    bodies = [EVERY_BYTE, b"", None, b"\x00", b"\\x00"]
    world.append([add(lease, *[Entry(Kind.NOTE, "schlüssel", body) for body in bodies])])
    entries = store.transact_now(lambda tx: tx.journal(lease.run_id))
    assert [(entry.key, entry.body) for entry in entries] == [("schlüssel", body) for body in bodies]


def test_open_intents_are_those_without_outcome(store: Store) -> None:
    """After the checkpoint, and a failure is an outcome too; a later intent of the same key is open again."""
    world = populate(store, 3)
    one, two, three = (claimed.lease for claimed in world.claim())
    intent = [Entry(Kind.INTENT, key, b"") for key in "abc"]
    world.append(
        [
            add(one, *intent, Entry(Kind.OUTCOME, "a", b""), Entry(Kind.FAILURE, "c", b"")),
            add(two, Entry(Kind.INTENT, "a", b""), Entry(Kind.OUTCOME, "a", b""), Entry(Kind.INTENT, "a", b"2")),
            add(three, *intent),
        ]
    )
    store.transact_now(lambda tx: tx.put_states([StateRow(three.run_id, 3, 0, 2, b"")]))
    found = store.transact_now(lambda tx: tx.open_intents(world.runs))
    assert {run: [(e.seq, e.key) for e in entries] for run, entries in found.items()} == {
        one.run_id: [(2, "b")],
        two.run_id: [(3, "a")],
    }


def test_rows_are_read_by_field_and_number(store: Store) -> None:
    """Elements of append-only fields, from a number on."""
    one, two = populate(store, 2).runs
    rows = [(one, NewRow("done", n, bytes([n]))) for n in range(4)] + [(one, NewRow("other", 0, b"o"))]
    store.transact_now(lambda tx: tx.add_rows([*rows, (two, NewRow("done", 0, b"two"))]))
    assert store.transact_now(lambda tx: tx.get_rows(one, "done", after=1, limit=2)) == [b"\x01", b"\x02"]
    assert store.transact_now(lambda tx: tx.get_rows(two, "done", after=0, limit=9)) == [b"two"]
    assert store.transact_now(lambda tx: tx.get_rows(two, "other", after=0, limit=9)) == []


def test_the_outbox_keeps_its_order(store: Store) -> None:
    """Oldest first, until dropped."""
    one, two = populate(store, 2).runs
    new = [(one, NewMessage(two, "go", f"k{n}", bytes([n]))) for n in range(4)]
    store.transact_now(lambda tx: tx.add_messages(new))
    waiting = store.transact_now(lambda tx: tx.outbox(limit=3))
    assert [tuple(m)[1:] for m in waiting] == [(run, *m) for run, m in new[:3]]
    store.transact_now(lambda tx: tx.drop_messages([m.id for m in waiting[:2]]))
    assert [m.key for m in store.transact_now(lambda tx: tx.outbox(limit=9))] == ["k2", "k3"]


def test_blobs_are_kept_once_and_swept_when_nobody_names_them(store: Store, moment: Moment) -> None:
    """Two runs may name one blob; a sweep takes old ones that no run names."""
    one, two = populate(store, 2).runs
    named = [(one, Blob(b"d1", EVERY_BYTE)), (two, Blob(b"d1", EVERY_BYTE)), (two, Blob(b"d2", b"x"))]
    store.transact_now(lambda tx: tx.put_blobs(named))
    found = store.transact_now(lambda tx: tx.get_blobs([b"d1", b"d2", b"d3"]))
    assert found == {b"d1": EVERY_BYTE, b"d2": b"x"}
    moment.advance(10)
    assert store.transact_now(lambda tx: tx.sweep_blobs(before=moment.at, limit=9)) == 0
    store.transact_now(lambda tx: tx.drop_runs([two]))
    assert store.transact_now(lambda tx: tx.sweep_blobs(before=START_AT, limit=9)) == 0, "not old enough"
    assert store.transact_now(lambda tx: tx.sweep_blobs(before=moment.at, limit=9)) == 1
    assert store.transact_now(lambda tx: tx.get_blobs([b"d1", b"d2"])) == {b"d1": EVERY_BYTE}


def test_taken_signals_are_gone_and_keys_are_remembered(store: Store) -> None:
    """A consumed signal is not unread; its key still makes a repetition a duplicate."""
    world = populate(store, 1)
    run = world.runs[0]
    world.signal(NewSignal(run, "a", b"1"), NewSignal(run, "b", b"2", "key", "me"), NewSignal(run, "c", b"3"))
    store.transact_now(lambda tx: tx.take_signals([(run, 1), (run, 2)]))
    unread = store.transact_now(lambda tx: tx.unread([run]))
    assert [signal.name for signal in unread[run]] == ["c"]
    from torpor.store.rows import Kept

    assert world.signal(NewSignal(run, "b", b"2", "key")) == [Kept.DUPLICATE]
    assert world.signal(NewSignal(run, "a", b"1")) == [Kept.NEW]


def test_facts_are_written_over(store: Store) -> None:
    """A fact about the store has one value."""
    assert store.transact_now(lambda tx: tx.get_meta("era")) is None
    store.transact_now(lambda tx: tx.put_meta("era", "1"))
    store.transact_now(lambda tx: tx.put_meta("era", "2"))
    assert store.transact_now(lambda tx: tx.get_meta("era")) == "2"
