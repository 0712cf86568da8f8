"""Connections that break: what the caller is told, and what it finds when it reads again (G3)."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from tests.conformance.deaf import DeafWire
from tests.conformance.world import LEASE, World, add, populate
from tests.stores import raw
from torpor.core.run import Flag
from torpor.errors import StoreUnavailable
from torpor.store.opening import open_store
from torpor.store.postgres import PostgresStore
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stores import Place
    from torpor.store.protocol import Tx


@pytest.fixture
def wire(on_server: Place) -> Iterator[DeafWire]:
    """Return a wire to the test's server."""
    wire = DeafWire(on_server.url)
    yield wire
    wire.close()


@pytest.fixture
def far(wire: DeafWire) -> Iterator[PostgresStore]:
    """Return a store that speaks through the wire."""
    store = PostgresStore(wire.url)
    yield store
    store.close_now()


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "commit"])
def test_a_commit_whose_answer_was_lost_happened(
    on_server: Place,
    wire: DeafWire,
    far: PostgresStore,
    alone: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The error says that nobody knows; reading on a new connection finds the entries."""
    world = populate(on_server.open(), 1)
    lease = world.claim()[0].lease
    wrong = add(lease._replace(head=9))  # a statement's first use is two round trips: it is prepared before

    def prepare(tx: Tx) -> None:
        if alone:
            tx.alone()
        assert not tx.append([wrong], lease_micros=LEASE)

    far.transact_now(prepare, lane=Lane.COMMIT)

    def op(tx: Tx) -> None:
        if alone:
            tx.alone()
            wire.lose_answer()
        assert tx.append([add(lease)], lease_micros=LEASE)
        wire.lose_answer()

    with pytest.raises(StoreUnavailable) as lost:
        far.transact_now(op, lane=Lane.COMMIT)
    assert lost.value.answer_lost
    found = far.transact_now(lambda tx: (tx.journal(lease.run_id), tx.leases([lease.run_id])), lane=Lane.COMMIT)
    assert [entry.epoch for entry in found[0]] == [lease.epoch]
    assert found[1][lease.run_id].head == 1


def test_a_break_before_the_commit_changed_nothing(on_server: Place, wire: DeafWire, far: PostgresStore) -> None:
    """What breaks earlier was no commit, and the error says so."""
    world = populate(on_server.open(), 1)
    lease = world.claim()[0].lease
    far.transact_now(lambda tx: tx.get_meta("warm"), lane=Lane.COMMIT)

    def op(tx: Tx) -> None:
        wire.lose_answer()
        tx.append([add(lease)], lease_micros=LEASE)

    with pytest.raises(StoreUnavailable) as broken:
        far.transact_now(op, lane=Lane.COMMIT)
    assert not broken.value.answer_lost
    assert world.store.transact_now(lambda tx: tx.journal(lease.run_id)) == []
    assert world.append([add(lease)]) == {lease.run_id: Flag.NONE}


def test_a_killed_connection_is_opened_again(direct: Place) -> None:
    """The administrator, or a failover, ends every connection: each lane says so once and then goes on."""
    store = direct.postgres()
    world = populate(store, 1)
    lanes = [Lane.COMMIT, Lane.WORK, Lane.READ, Lane.RENEW]
    for lane in lanes:
        store.transact_now(lambda tx: tx.get_meta("k"), lane=lane)
    assert direct.cut() >= 3
    for lane in (Lane.COMMIT, Lane.READ, Lane.RENEW):
        with pytest.raises(StoreUnavailable) as broken:
            store.transact_now(lambda tx: tx.get_meta("k"), lane=lane)
        assert not broken.value.answer_lost
        assert store.transact_now(lambda tx: tx.get_runs(world.runs), lane=lane)


def test_a_kill_between_statement_and_commit_is_in_doubt(on_server: Place) -> None:
    """The commit was sent into a broken connection: only reading back tells, and here it did not happen."""
    store = on_server.postgres()
    world = populate(store, 1)
    lease = world.claim()[0].lease

    def op(tx: Tx) -> None:
        assert tx.append([add(lease)], lease_micros=LEASE)
        on_server.cut()

    with pytest.raises(StoreUnavailable) as doubt:
        store.transact_now(op, lane=Lane.COMMIT)
    assert doubt.value.answer_lost
    world = World(on_server.open(), *world[1:])
    assert world.append([add(lease)]) == {lease.run_id: Flag.NONE}


def test_recover_takes_a_new_connection(on_server: Place) -> None:
    """After a lost answer nothing may be read on the old one."""
    store = on_server.postgres()

    def backend(tx: Tx) -> int:
        return int(raw(tx).info.backend_pid)

    for lane in (Lane.COMMIT, Lane.READ, Lane.RENEW):
        first = store.transact_now(backend, lane=lane)
        assert store.transact_now(backend, lane=lane) == first
        store.recover(lane)
        assert store.transact_now(backend, lane=lane) != first


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_use_its_parent_s_connections(on_server: Place) -> None:
    """A connection remembers its process; the child opens its own, and the parent's still works afterwards."""
    store = on_server.postgres()

    def backends() -> set[int]:
        lanes = (Lane.COMMIT, Lane.WORK, Lane.READ, Lane.RENEW)
        return {store.transact_now(lambda tx: int(raw(tx).info.backend_pid), lane=lane) for lane in lanes}

    mine = backends()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, repr(sorted(backends())).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    theirs = set(map(int, os.read(read, 100).strip(b"[]").split(b",")))
    os.close(read)
    assert len(theirs) == len(mine) == 4
    assert not theirs & mine
    assert backends() & mine, "the child said no goodbye on a shared socket"


def test_a_server_that_is_not_there_is_said(on_server: Place) -> None:
    """A refused connection, a missing database: what, where, and what to do; no password in it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}") as refused:
            open_store(f"postgresql://me:secret@127.0.0.1:{port}/nothing")
    assert refused.value.hint
    assert "secret" not in str(refused.value)
    with pytest.raises(StoreUnavailable, match="does not exist") as missing:
        open_store(on_server.url.replace("/postgres?", "/no_such_database?"))
    assert missing.value.hint
    assert not missing.value.answer_lost


def test_a_server_that_only_reads_is_said(on_server: Place) -> None:
    """Connected to a replica: the first write says so."""
    store = on_server.postgres()

    def op(tx: Tx) -> None:
        raw(tx).execute("SET TRANSACTION READ ONLY")
        tx.put_meta("k", "v")

    with pytest.raises(StoreUnavailable, match="read-only") as refused:
        store.transact_now(op)
    assert "primary" in refused.value.hint
