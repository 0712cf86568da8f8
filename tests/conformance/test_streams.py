"""The verbs of streams and views, and the fence of what is written between commits (G1, G2, G11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.meeting import Beside, Held
from tests.conformance.world import LEASE, TOKEN, populate
from torpor.core.lease import LostAnswer
from torpor.core.stream import NewPart, PartKind, PartRow, StreamRow, StreamWrite
from torpor.engine import streams
from torpor.engine.streams import Said
from torpor.store.rows import ViewRow

if TYPE_CHECKING:
    from tests.stores import Moment, Place
    from torpor.core.lease import Lease
    from torpor.store.protocol import Store, Tx

BODY = bytes(range(1, 256)) * 9


def text(n: int = 1, voice: int = 1) -> list[NewPart]:
    """Return parts of one voice."""
    return [NewPart(voice, PartKind.TEXT, b'"%d"' % i) for i in range(n)]


def said(lease: Lease, from_n: int | None, parts: list[NewPart] | None = None, *, view: bytes | None = None) -> Said:
    """Return what a leaseholder says."""
    return Said(lease.run_id, lease.token, lease.epoch, StreamWrite(from_n, text() if parts is None else parts), view)


def test_streams_and_parts_are_kept(store: Store, moment: Moment) -> None:
    """A batch of several runs, overwritten rows, bytes as they were, pages in order."""
    one, two = populate(store, 2).runs
    rows = [StreamRow(two, 3, 1, '{"1": [[1, 3]]}'), StreamRow(one, 1, 1, "")]
    parts = [(two, PartRow(n, 0, PartKind.VALUE, BODY)) for n in (1, 2, 3)] + [
        (one, PartRow(1, 0, PartKind.TEXT, b"t"))
    ]
    store.transact_now(lambda tx: (tx.put_streams(rows), tx.add_parts(parts)))
    store.transact_now(lambda tx: tx.put_streams([StreamRow(one, 2, 4, "x")]))
    found = store.transact_now(lambda tx: tx.streams([one, two, 999], lock=True))
    assert found == {one: StreamRow(one, 2, 4, "x"), two: rows[0]}
    assert store.transact_now(lambda tx: tx.parts(two, after=1, limit=5)) == [
        PartRow(n, moment.at, PartKind.VALUE, BODY) for n in (2, 3)
    ]
    assert [part.n for part in store.transact_now(lambda tx: tx.parts(two, after=0, limit=2))] == [1, 2]
    assert store.transact_now(lambda tx: tx.parts(one, after=1, limit=5)) == []


def test_a_number_is_given_out_once(store: Store) -> None:
    """Whoever writes a number that is taken is refused by the database itself, and nothing of it stays (G2)."""
    run = populate(store, 1).runs[0]
    again = [(run, PartRow(n, 0, PartKind.TEXT, b"t")) for n in (2, 1)]
    store.transact_now(lambda tx: tx.add_parts(again[1:]))
    with pytest.raises(Exception, match=r"(?i)unique"):
        store.transact_now(lambda tx: tx.add_parts(again))
    assert [part.n for part in store.transact_now(lambda tx: tx.parts(run, after=0, limit=5))] == [1]


def test_views_are_overwritten(store: Store, moment: Moment) -> None:
    """The last one stands, with its time."""
    one, two = populate(store, 2).runs
    store.transact_now(lambda tx: tx.put_views([(two, b"1"), (one, BODY)]))
    at = moment.advance(1)
    store.transact_now(lambda tx: tx.put_views([(two, b"2")]))
    found = store.transact_now(lambda tx: tx.views([one, two, 999]))
    assert found == {one: ViewRow(one, at - 1_000_000, BODY), two: ViewRow(two, at, b"2")}


def test_only_the_leaseholder_writes_and_each_number_once(store: Store) -> None:
    """Two copies with equal values: the first wins. Another token or epoch, or no lease: nothing is written (G1, G2)."""
    world = populate(store, 3)
    one, two = (claimed.lease for claimed in world.claim(2))
    counters = store.transact_now(streams.append, [said(two, None, text(3)), said(one, None)])
    assert counters == [3, 1]
    for copy in (said(two, None), said(two, 2), said(two, 0)):
        assert store.transact_now(streams.append, [copy, said(one, 99)]) == [None, None]
    assert store.transact_now(streams.append, [said(two, 3)]) == [4]
    strangers = [one._replace(token=TOKEN + 1), one._replace(epoch=one.epoch + 1), one._replace(run_id=world.runs[2])]
    for stranger in strangers:
        assert store.transact_now(streams.append, [said(stranger, 1, view=b"1")]) == [None]
        assert store.transact_now(streams.append, [said(stranger, None, view=b"1")]) == [None]
    assert [part.n for part in store.transact_now(lambda tx: tx.parts(one.run_id, after=0, limit=9))] == [1]
    assert store.transact_now(lambda tx: tx.views(world.runs)) == {}


def test_what_became_of_a_write(store: Store) -> None:
    """A lost answer: it happened, it did not, or somebody else wrote (G3)."""
    world = populate(store, 1)
    lease = world.claim()[0].lease
    first = said(lease, None, text(2))
    assert store.transact_now(streams.find_out, first) == (LostAnswer.SEND_AGAIN, 0)
    store.transact_now(streams.append, [first])
    assert store.transact_now(streams.find_out, first) == (LostAnswer.HAPPENED, 2)
    drop = Said(lease.run_id, lease.token, lease.epoch, StreamWrite(2, drops=[1]))
    assert store.transact_now(streams.find_out, drop) == (LostAnswer.SEND_AGAIN, 0)
    store.transact_now(streams.append, [drop])
    assert store.transact_now(streams.find_out, drop) == (LostAnswer.HAPPENED, 3)
    assert store.transact_now(streams.find_out, said(lease, 2))[0] is LostAnswer.LEASE_LOST
    store.transact_now(lambda tx: tx.drop_leases([lease.run_id]))
    assert store.transact_now(streams.find_out, first)[0] is LostAnswer.LEASE_LOST


def test_two_copies_at_once(on_server: Place) -> None:
    """The second waits behind the first, and is refused: a number is never given out twice (G2)."""
    world = populate(on_server.open(), 1)
    lease = world.claim()[0].lease
    first = Held(world.store, lambda tx: streams.append(tx, [said(lease, None)]))
    second = Beside(lambda: on_server.open().transact_now(streams.append, [said(lease, None)]))
    on_server.blocked()
    assert (first.result(), second.result()) == ([1], [None])


def test_a_takeover_waits_for_a_write_and_takes_it_back(on_server: Place) -> None:
    """Whoever ends a lease sees everything its holder wrote (G11)."""
    world = populate(on_server.open(), 1)
    lease = world.claim()[0].lease
    write = Held(world.store, lambda tx: streams.append(tx, [said(lease, None)]))

    def end(tx: Tx) -> None:
        tx.leases([lease.run_id], lock=True)
        tx.drop_leases([lease.run_id])
        streams.retract(tx, [lease.run_id])

    ends = Beside(lambda: on_server.open().transact_now(end))
    on_server.blocked()
    assert write.result() == [1]
    ends.result()
    kinds = [part.kind for part in world.store.transact_now(lambda tx: tx.parts(lease.run_id, after=0, limit=9))]
    assert kinds == [PartKind.TEXT, PartKind.RETRACT]
    assert world.store.transact_now(streams.append, [said(lease, 1)]) == [None]


def test_a_lease_of_this_length(store: Store) -> None:
    """A write between commits extends no lease: only work does."""
    world = populate(store, 1)
    lease = world.claim()[0].lease
    store.transact_now(streams.append, [said(lease, None)])
    now = world.lease(lease.run_id)
    assert now is not None
    assert now.expires_at == lease.expires_at == store.transact_now(lambda tx: tx.now()) + LEASE
