"""Acknowledged means on the disk: what each store asks of its database before it says that a commit happened (G3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.stores import raw
from torpor.store.opening import open_store
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from tests.stores import Place
    from torpor.store.protocol import Store, Tx

WRITING = (Lane.COMMIT, Lane.WORK, Lane.RENEW)
FULL, NORMAL = 2, 1


def asked(store: Store, statement: str) -> set[object]:
    """Return what each lane that writes answers."""

    def ask(tx: Tx) -> object:
        return raw(tx).execute(statement).fetchone()[0]

    return {store.transact_now(ask, lane=lane) for lane in WRITING}


def test_a_commit_waits_for_the_disk(shared: Place) -> None:
    """Unless a scratch store was asked for: SQLite is told to, a server is left as its administrator set it up."""
    kept, scratch = open_store(shared.url), open_store(shared.url, durable=False)
    try:
        if shared.on_server:
            said = "SELECT source FROM pg_settings WHERE name = 'synchronous_commit'"
            assert "session" not in asked(kept, said)
            assert asked(scratch, said) == {"session"}
            assert asked(scratch, "SHOW synchronous_commit") == {"off"}
        else:
            assert asked(kept, "PRAGMA journal_mode") == {"wal"}
            assert asked(kept, "PRAGMA synchronous") == {FULL}
            assert asked(scratch, "PRAGMA synchronous") == {NORMAL}
    finally:
        kept.close_now()
        scratch.close_now()
