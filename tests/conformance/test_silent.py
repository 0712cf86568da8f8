"""A transaction whose owner says nothing more, frozen in the middle of it: the server ends it, and its locks are free (G13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.errors import StoreUnavailable
from torpor.store.postgres import connect

if TYPE_CHECKING:
    from tests.stores import Place
    from torpor.store.protocol import Tx


def test_the_server_counts_whatever_was_asked_last(on_server: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here 0.2 s instead of 15. In one exchange with BEGIN, as almost all of torpor's are, it once never did."""
    monkeypatch.setitem(connect._SETTINGS, "idle_in_transaction_session_timeout", "200ms")  # noqa: SLF001 - as below
    store = on_server.open()
    on_server.admin.execute(f"SET lock_timeout = '{PATIENCE_SECONDS:g}s'".encode())

    def is_silent(tx: Tx) -> None:
        tx.put_meta("held", "by who is silent")
        assert tx.get_meta("held") == "by who is silent"
        on_server.admin.execute("INSERT INTO meta (key, value) VALUES ('held', 'by another')")  # waits for the lock

    with pytest.raises(StoreUnavailable):
        store.transact_now(is_silent)
    assert store.transact_now(lambda tx: tx.get_meta("held")) == "by another"
