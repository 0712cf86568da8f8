"""The connection lent to a transactional effect: its writes are true with the commit, and it can do nothing else (G6)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.conformance.world import LEASE, add, populate
from torpor.core.run import Flag
from torpor.errors import UsageError
from torpor.store.postgres import lending as lending_on_server
from torpor.store.sqlite import lending as lending_in_file

if TYPE_CHECKING:
    from tests.stores import Place
    from torpor.store.protocol import Store, Tx

FORBIDDEN = [
    "COMMIT",
    "  -- a remark\n rollback",
    "BEGIN",
    "SAVEPOINT a",
    "INSERT INTO {schema}meta (key, value) VALUES ('a', 'b')",
    "DELETE FROM {schema}leases",
    "UPDATE {schema}runs SET head = 9",
    "INSERT INTO orders VALUES (2); COMMIT",
]


@pytest.fixture
def shop(store: Store) -> Store:
    """Return a store whose database also has a table of the author's own."""

    def make(tx: Tx) -> None:
        with tx.lend() as connection:
            connection.execute("CREATE TABLE orders (id integer PRIMARY KEY)")

    store.transact_now(make)
    return store


def _orders(store: Store) -> int:
    def count(tx: Tx) -> int:
        with tx.lend() as connection:
            return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])

    return store.transact_now(count)


def test_the_writes_are_true_with_the_commit(shop: Store) -> None:
    """Both happen, or neither does; afterwards torpor's own verbs work as before."""
    world = populate(shop, 1)
    lease = world.claim()[0].lease

    def op(tx: Tx, *, fails: bool) -> dict[int, Flag]:
        with tx.lend() as connection:
            connection.execute("INSERT INTO orders (id) VALUES (1)")
        kept = tx.append([add(lease)], lease_micros=LEASE)
        if fails:
            raise UsageError("no")
        return kept

    with pytest.raises(UsageError):
        shop.transact_now(op, fails=True)
    assert (_orders(shop), len(shop.transact_now(lambda tx: tx.journal(lease.run_id)))) == (0, 0)
    assert shop.transact_now(op, fails=False) == {lease.run_id: Flag.NONE}
    assert (_orders(shop), len(shop.transact_now(lambda tx: tx.journal(lease.run_id)))) == (1, 1)


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_a_borrower_ends_nothing_and_touches_nothing_of_torpor(shop: Store, place: Place, statement: str) -> None:
    """The transaction is rolled back, and the next one finds everything as it was."""
    world = populate(shop, 1)
    lease = world.claim()[0].lease
    schema = f"{place.schema}." if place.on_server else ""

    def op(tx: Tx) -> None:
        tx.put_meta("before", "1")
        with tx.lend() as connection:
            connection.execute("INSERT INTO orders (id) VALUES (1)")
            connection.execute(statement.format(schema=schema))

    with pytest.raises(Exception):  # noqa: B017, PT011 - each database refuses in its own words
        shop.transact_now(op)
    assert _orders(shop) == 0
    assert shop.transact_now(lambda tx: tx.get_meta("before")) is None
    assert world.append([add(lease)]) == {lease.run_id: Flag.NONE}


def test_an_effect_that_keeps_everybody_waiting_is_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds, here less: a statement is interrupted, and idling is seen at the end."""
    monkeypatch.setattr(lending_in_file, "LENT_SECONDS", 0.0)
    monkeypatch.setattr(lending_on_server, "LENT_SECONDS", 0.0)

    def op(tx: Tx) -> None:
        with tx.lend() as connection:
            connection.execute("SELECT 1")

    with pytest.raises(UsageError, match="took longer than"):
        store.transact_now(op)
    assert store.transact_now(lambda tx: tx.get_meta("k")) is None


def test_a_hidden_error_is_found(on_server: Place) -> None:
    """PostgreSQL has given up the transaction, whatever the author's code made of the error."""
    store = on_server.open()

    def op(tx: Tx) -> None:
        with tx.lend() as connection, suppress(Exception):  # the second is what a careless author writes
            connection.execute("SELECT 1 / 0")

    with pytest.raises(UsageError, match="hid an error"):
        store.transact_now(op)
