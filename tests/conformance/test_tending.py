"""What a store does for itself beside its transactions, and connections that two threads ask for at once."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.meeting import Beside, Held
from tests.conformance.world import LEASE, populate
from tests.patience import PATIENCE_SECONDS
from torpor.engine import leases as leases_of
from torpor.store.protocol import Lane
from torpor.store.sqlite import store as sqlite

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.stores import Place
    from torpor.core.lease import Lease
    from torpor.store.protocol import Store, Tx

PAGE = "x" * 100_000


def grow(store: Store) -> None:
    """Write half a megabyte, always the same rows."""
    for n in range(5):
        store.transact_now(lambda tx, n=n: tx.put_meta(f"page {n}", PAGE))


def wal(store: sqlite.SqliteStore) -> int:
    """Return the size of the write-ahead log."""
    return Path(f"{store.path}-wal").stat().st_size


def test_two_threads_share_the_renewal_connection(shared: Place) -> None:
    """The renewal thread and the check after a gap come at once: once a thawed worker crashed in it."""
    store = shared.open()
    world = populate(store, 2)
    leases = [one.lease for one in world.claim()]
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)

    def renew(lease: Lease) -> int:
        asked, renewed = [lease[:3]], 0
        for _ in range(50):
            both.wait()
            renewed += len(store.transact_now(leases_of.renew, world.worker, asked, LEASE, lane=Lane.RENEW))
        return renewed

    threads = [Beside(partial(renew, lease)) for lease in leases]
    assert [thread.result() for thread in threads] == [50, 50]


def test_one_renewal_waits_for_the_other(make_place: Callable[[str], Place]) -> None:
    """On a file: the second has the connection only once the first is through, recovery between them or not."""
    store = make_place("sqlite").sqlite()
    order: list[str] = []

    began, go = threading.Event(), threading.Event()

    def held(tx: Tx) -> None:
        tx.put_meta("k", "1")
        order.append("first began")
        began.set()
        assert go.wait(PATIENCE_SECONDS)
        order.append("first ends")

    one = Beside(lambda: store.transact_now(held, lane=Lane.RENEW))
    assert began.wait(PATIENCE_SECONDS)
    store.recover(Lane.RENEW)
    two = Beside(lambda: store.transact_now(lambda _: order.append("second"), lane=Lane.RENEW))
    go.set()
    one.result()
    two.result()
    assert order == ["first began", "first ends", "second"]


def test_a_grown_log_is_copied_back(make_place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the soft limit: what is written next begins at the log's start again. Below it nothing happens."""
    store = make_place("sqlite").sqlite()
    grow(store)
    before = wal(store)
    store.tend()
    grow(store)
    assert wal(store) > before * 1.5, "below the limit it grows"
    monkeypatch.setattr(sqlite, "WAL_SOFT_BYTES", 1)
    before = wal(store)
    store.tend()
    grow(store)
    assert wal(store) == before


def test_a_log_that_grew_too_far_is_truncated_in_turn(
    make_place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the hard limit: as soon as the writer that is at it has ended, before the next one."""
    place = make_place("sqlite")
    store, other = place.sqlite(), place.sqlite()
    monkeypatch.setattr(sqlite, "WAL_SOFT_BYTES", 1)
    monkeypatch.setattr(sqlite, "WAL_HARD_BYTES", 1)
    grow(store)
    writer = Held(other, lambda tx: tx.put_meta("page 0", "short"))
    tending = Beside(store.tend)
    assert wal(store) > 0
    writer.result()
    tending.result()
    assert wal(store) == 0
    assert store.transact_now(lambda tx: tx.get_meta("page 0")) == "short"


def test_dead_leases_are_vacuumed(on_server: Place) -> None:
    """Once there are enough of them; the server itself does not vacuum here."""
    store = on_server.postgres()
    populate(store, 700).claim(700)
    count = "SELECT pg_stat_get_vacuum_count('leases'::regclass)"  # what goes depends on who else reads on this server

    def tended(most: int) -> int:
        """Update so many leases, tend the store, and return how often it was vacuumed."""
        on_server.admin.execute("UPDATE leases SET expires_at = expires_at + 1 WHERE run_id <= %s", (most,))
        on_server.admin.execute("SELECT pg_stat_force_next_flush()")
        store.tend()
        row = on_server.admin.execute(count).fetchone()
        assert row is not None
        return int(row[0])

    before = tended(0)  # a claim that was run again, as a busy server may ask for, has left its first rows dead
    assert tended(100) == before
    assert tended(700) == before + 1
