"""Hints: they reach every process that listens, after the commit, and never a transaction that was taken back."""

from __future__ import annotations

import subprocess
import sys
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.errors import NotFound
from torpor.store.postgres.listener import PostgresListener

if TYPE_CHECKING:
    from tests.stores import Place
    from torpor.store.protocol import Listener, Store, Tx

_SENDER = """
import sys
from torpor.store.opening import open_store
store = open_store(sys.argv[1])
store.transact_now(lambda tx: tx.hint("from afar"))
store.close_now()
"""


def _listen(store: Store, heard: SimpleQueue[str]) -> Listener:
    listener = store.listen(heard.put)
    if isinstance(listener, PostgresListener):
        assert listener.listening.wait(PATIENCE_SECONDS)
    return listener


def test_a_hint_is_heard_after_the_commit(store: Store) -> None:
    """Also by the process that sent it; a topic is said once for each transaction; one taken back is not heard."""
    heard: SimpleQueue[str] = SimpleQueue()
    listener = _listen(store, heard)

    def twice(tx: Tx) -> None:
        tx.hint("ready")
        tx.hint("ready")
        assert heard.empty()

    def taken_back(tx: Tx) -> None:
        tx.hint("never")
        tx.now()
        raise NotFound("nothing")

    store.transact_now(twice)
    assert heard.get(timeout=PATIENCE_SECONDS) == "ready"
    with pytest.raises(NotFound):
        store.transact_now(taken_back)
    store.transact_now(lambda tx: tx.hint("last"))
    assert heard.get(timeout=PATIENCE_SECONDS) == "last"
    listener.close()
    store.transact_now(lambda tx: tx.hint("nobody"))
    assert heard.empty()


def test_a_hint_crosses_processes(unpooled: Place) -> None:
    """The listener's process is not the sender's."""
    heard: SimpleQueue[str] = SimpleQueue()
    listener = _listen(unpooled.open(), heard)
    subprocess.run([sys.executable, "-c", _SENDER, unpooled.url], check=True)
    assert heard.get(timeout=PATIENCE_SECONDS) == "from afar"
    listener.close()


def test_a_listener_comes_back_after_its_connection_broke(direct: Place) -> None:
    """Nobody is told; hints that were sent meanwhile are lost, later ones are heard."""
    heard: SimpleQueue[str] = SimpleQueue()
    store = direct.postgres()
    listener = store.listen(heard.put)
    assert listener.listening.wait(PATIENCE_SECONDS)
    first = listener.hearings
    direct.cut()
    while listener.hearings == first:
        assert listener.listening.wait(PATIENCE_SECONDS)
    direct.open().transact_now(lambda tx: tx.hint("again"))
    assert heard.get(timeout=PATIENCE_SECONDS) == "again"
    listener.close()
    assert not listener.listening.is_set()
