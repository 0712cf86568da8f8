"""One transaction on PostgreSQL: all verbs of `store.protocol.Tx`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.store.postgres.journal import JournalVerbs
from torpor.store.postgres.leases import LeaseVerbs
from torpor.store.postgres.runs import RunVerbs
from torpor.store.postgres.waits import WaitVerbs

if TYPE_CHECKING:
    from torpor.store.postgres.connect import Connection
    from torpor.store.postgres.exchange import Exchange

_AUTHORS_SETTINGS = """SET LOCAL plan_cache_mode TO DEFAULT; SET LOCAL enable_hashjoin TO DEFAULT;
    SET LOCAL enable_mergejoin TO DEFAULT; SET LOCAL enable_seqscan TO DEFAULT;
    SET LOCAL enable_bitmapscan TO DEFAULT"""


class PostgresTx(RunVerbs, JournalVerbs, WaitVerbs, LeaseVerbs):
    """One transaction."""

    def __init__(self, exchange: Exchange, channel: str) -> None:
        """Begin to speak; `channel` carries the hints."""
        super().__init__(exchange)
        self._channel = channel
        self._hinted: set[str] = set()

    def alone(self) -> None:
        """Let the next verb that is answered be a transaction by itself, with what was told before it."""
        self._exchange.alone()

    def hint(self, topic: str) -> None:
        """Notify whoever listens, with the commit."""
        if topic not in self._hinted:
            self._hinted.add(topic)
            self._tell("SELECT pg_notify(%(channel)s, %(topic)s)", channel=self._channel, topic=topic)

    def connection(self) -> Connection:
        """Return the connection of this transaction, planning as an author's own statements expect it."""
        connection = self._exchange.begun()
        connection.execute(_AUTHORS_SETTINGS, prepare=False)
        return connection
