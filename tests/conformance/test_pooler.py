"""Behind PgBouncer in transaction mode: nothing is left in the pool, nothing is believed that only a connection proves."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.conformance.world import LEASE, WORKER, add, away, populate
from tests.patience import PATIENCE_SECONDS
from tests.poolers import pooler
from tests.stores import Place, raw
from torpor.core.lease import Proof
from torpor.core.run import Flag, State
from torpor.errors import StoreUnavailable, UsageError
from torpor.store.life import host_identity
from torpor.store.migrate import newest
from torpor.store.postgres import PostgresStore
from torpor.store.postgres.connect import parse
from torpor.store.postgres.exchange import Seat
from torpor.store.protocol import Lane
from torpor.store.rows import WorkerRow

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from torpor.store.postgres.connect import Connection
    from torpor.store.protocol import Tx

_LEFT = """SELECT name FROM pg_settings WHERE source = 'session' AND name NOT IN
    ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings', 'IntervalStyle')
    UNION ALL SELECT name FROM pg_prepared_statements
    UNION ALL SELECT pg_listening_channels()
    UNION ALL SELECT objid::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"""
_HOLDER = """
import sys
from torpor.store.opening import open_store
print(open_store(sys.argv[1]).life_lock("w").name, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def pooled(make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database behind a pooler."""
    return make_place("pooled")


@pytest.mark.parametrize("size", [1, 2])
def test_stores_that_share_a_pool_do_not_meet(
    server_url: Callable[[str], str], make_place: Callable[[str], Place], size: int
) -> None:
    """Two schemas through the same one or two connections, in turn: each finds its own tables, and nothing stays behind."""
    places = [make_place("postgres"), make_place("postgres")]
    with ExitStack() as open_now:
        url = open_now.enter_context(pooler(server_url("postgres"), "postgres", size=size))
        said = ["", "&pooler=transaction"]
        stores = [PostgresStore(f"{url}?schema={place.schema}{more}") for place, more in zip(places, said, strict=True)]
        for store in stores:
            open_now.callback(store.close_now)
        if size > 1:  # both at once: every connection there may be is there

            def meanwhile(tx: Tx) -> None:
                tx.get_meta("k")
                stores[1].transact_now(lambda tx: tx.get_meta("k"))

            stores[0].transact_now(meanwhile)
        worlds = [populate(store, 1) for store in stores]
        leases = [world.claim()[0].lease for world in worlds]
        for n in range(4):
            for world, lease in zip(worlds, leases, strict=True):
                at = add(lease._replace(head=n))
                assert world.append([at]) == {lease.run_id: Flag.NONE}
                assert world.store.transact_now(lambda tx, w=world: tx.get_runs(w.runs), lane=Lane.READ)
        for store, world, lease in zip(stores, worlds, leases, strict=True):

            def lends(tx: Tx) -> None:
                with tx.lend() as connection, pytest.raises(psycopg.errors.UndefinedTable):
                    connection.execute("SELECT 1 FROM runs")

            with pytest.raises(UsageError, match="hid an error"):
                store.transact_now(lends)
            assert world.leave([away(lease._replace(head=4))]) == {lease.run_id: State.WAITING}
            store.tend()
            assert store.schema() == store.migrate() == newest("postgres")
            lock = store.life_lock("w")
            assert lock.held()
            lock.release()
        backends = set()
        for _ in range(
            size
        ):  # each keeps its transaction open, so that the next one gets another connection of the pool
            stranger = open_now.enter_context(psycopg.connect(url, prepare_threshold=None))
            backends.add(stranger.execute("SELECT pg_backend_pid()").fetchone())
            assert stranger.execute(_LEFT).fetchall() == []
        assert len(backends) == size, "these are all, and the stores used them"


@pytest.mark.parametrize(
    ("mode", "said", "carries"),
    [("transaction", "", True), ("session", "", True), ("session", "session", False), ("none", "", False)],
)
def test_a_pooler_is_found_out(make_place: Callable[[str], Place], mode: str, said: str, carries: bool) -> None:  # noqa: FBT001
    """Its key to cancel with names no process of the server; one of sessions gives everything, if the URL says so."""
    place = make_place("postgres")
    with ExitStack() as open_now:
        url = place.url
        if mode != "none":
            role = open_now.enter_context(pooler(place.url, "postgres", mode=mode))
            url = f"{role}?schema={place.schema}&pooler={said}"
        seat = Seat(parse(url))
        open_now.callback(seat.close)
        assert bool(seat.carried) is carries
        assert seat.ask("SHOW search_path") == [(place.schema,)]
        assert seat.ask("SELECT 1 FROM meta")


def test_a_mode_that_is_none_is_refused() -> None:
    """Both modes are named."""
    with pytest.raises(UsageError, match="pooler=statement") as refused:
        parse("postgresql://h/d?pooler=statement")
    assert refused.value.hint == "pooler=transaction or pooler=session"


def test_what_a_pooler_does_not_pass_on_is_said(pooled: Place) -> None:
    """The parameter stands in the error, what to do in the hint."""
    store = PostgresStore(f"{pooled.url}&options=-csearch_path%3Dx")
    with pytest.raises(StoreUnavailable, match="unsupported startup parameter") as refused:
        store.schema()
    assert "take it out of the URL" in refused.value.hint
    store.close_now()


def test_every_transaction_has_the_settings(pooled: Place) -> None:
    """On whatever connection it came; a scratch store's too. Afterwards the connection is as it was."""
    store = PostgresStore(pooled.url, durable=False)
    names = ("search_path", "plan_cache_mode", "idle_in_transaction_session_timeout", "synchronous_commit")

    def settings(tx: Tx) -> list[str]:
        return [raw(tx).execute(f"SHOW {name}".encode()).fetchone()[0] for name in names]

    for lane in (Lane.WORK, Lane.READ, Lane.COMMIT, Lane.RENEW):
        assert store.transact_now(settings, lane=lane) == [pooled.schema, "force_generic_plan", "15s", "off"]
    store.close_now()


def test_a_lone_commit_is_one_round_trip(pooled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings travel with it, in one transaction of its own: refused or not, nothing is left open."""
    store = pooled.postgres()
    world = populate(store, 1)
    lease = world.claim()[0].lease
    pipelines: list[int] = []
    entered = psycopg.Connection.pipeline

    def counted(self: Connection) -> AbstractContextManager[psycopg.Pipeline]:
        pipelines.append(1)
        return entered(self)

    monkeypatch.setattr(psycopg.Connection, "pipeline", counted)

    def alone(tx: Tx, head: int) -> dict[int, Flag]:
        tx.alone()
        return tx.append([add(lease._replace(head=head))], lease_micros=LEASE)

    assert store.transact_now(alone, 9, lane=Lane.COMMIT) == {}
    assert store.transact_now(alone, 0, lane=Lane.COMMIT) == {lease.run_id: Flag.NONE}
    assert len(pipelines) == 2
    statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state <> 'idle'"
    assert pooled.admin.execute(statement, (pooled.schema,)).fetchone() == (0,)


def _row(name: str, host: str) -> WorkerRow:
    return WorkerRow(1, WORKER.name, host, 1, name, 0, 0, "[]")


@pytest.mark.parametrize("prober", ["pooled", "direct"])
def test_only_the_file_proves_a_death(pooled: Place, server_url: Callable[[str], str], prober: str) -> None:
    """From another host nothing does, not even to one who has the server to itself: the lease must run out."""
    direct = PostgresStore(f"{server_url('postgres')}?schema={pooled.schema}")
    store = pooled.postgres() if prober == "pooled" else direct
    command = [sys.executable, "-W", "ignore", "-c", _HOLDER, pooled.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        name = holder.stdout.readline().strip()
        assert store.prove_death(_row(name, host_identity())) is Proof.NONE
        holder.kill()
        holder.wait()
    assert store.prove_death(_row(name, "elsewhere")) is Proof.NONE
    assert store.prove_death(_row(name, host_identity())) is Proof.PROCESS_GONE
    direct.close_now()


def test_a_direct_worker_is_proven_through_the_pooler(pooled: Place, server_url: Callable[[str], str]) -> None:
    """Its lock is its connection's own, and trying it takes no more than a transaction."""
    direct, store = PostgresStore(f"{server_url('postgres')}?schema={pooled.schema}"), pooled.postgres()
    lock = direct.life_lock("w")
    row = _row(lock.name, "elsewhere")
    assert store.prove_death(row) is Proof.NONE
    lock.release()
    assert [store.prove_death(row), direct.prove_death(row), store.prove_death(row)] == [Proof.LOCK_GONE] * 3
    direct.close_now()


def test_a_lock_whose_pooler_went_away_is_not_held(server_url: Callable[[str], str]) -> None:
    """The round trip is a true one: without an answer nothing is believed, and the connection is not opened again."""
    with pooler(server_url("postgres"), "postgres") as url:
        store = PostgresStore(url)
        lock = store.life_lock("w")
        assert lock.held()
    assert not lock.held()
    lock.release()
    store.close_now()


def test_a_failover_behind_the_pooler_is_a_start(pooled: Place) -> None:
    """Our connection stays, another server answers: nobody is thought dead for a while."""
    store = pooled.postgres()
    assert store.started_at == 0
    another = "CREATE OR REPLACE FUNCTION torpor_started_at() RETURNS bigint LANGUAGE sql AS 'SELECT 5::bigint'"
    pooled.admin.execute(another)
    assert store.started_at == pooled.moment.at
    assert store.started_at == pooled.moment.at


def test_hints_go_out_and_stay_inside(pooled: Place, server_url: Callable[[str], str]) -> None:
    """A store behind a pooler hears itself, and is heard by those with a connection of their own."""
    heard: SimpleQueue[str] = SimpleQueue()
    own: SimpleQueue[str] = SimpleQueue()
    direct, store = PostgresStore(f"{server_url('postgres')}?schema={pooled.schema}"), pooled.postgres()
    listeners = [direct.listen(heard.put), store.listen(own.put)]
    for listener in listeners:
        assert listener.listening.wait(PATIENCE_SECONDS)
    direct.transact_now(lambda tx: tx.hint("from the direct one"))
    store.transact_now(lambda tx: tx.hint("from the pooled one"))
    assert [heard.get(timeout=PATIENCE_SECONDS) for _ in range(2)] == ["from the direct one", "from the pooled one"]
    assert own.get(timeout=PATIENCE_SECONDS) == "from the pooled one"
    for listener in listeners:
        listener.close()
    store.transact_now(lambda tx: tx.hint("nobody"))
    assert own.empty()
    direct.close_now()
