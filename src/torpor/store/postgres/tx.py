"""One transaction on PostgreSQL: all verbs of `store.protocol.Tx`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.store.postgres.arrays import TextArray
from torpor.store.postgres.budgets import BudgetVerbs
from torpor.store.postgres.events import EventVerbs
from torpor.store.postgres.families import FamilyVerbs
from torpor.store.postgres.history import HistoryVerbs
from torpor.store.postgres.journal import JournalVerbs
from torpor.store.postgres.leases import LeaseVerbs
from torpor.store.postgres.lending import Lent, lent
from torpor.store.postgres.lines import LineVerbs
from torpor.store.postgres.listener import channel_of
from torpor.store.postgres.marks import MarkVerbs
from torpor.store.postgres.retention import RetentionVerbs
from torpor.store.postgres.runs import RunVerbs
from torpor.store.postgres.schedules import ScheduleVerbs
from torpor.store.postgres.streams import StreamVerbs
from torpor.store.postgres.waits import WaitVerbs

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torpor.store.outside import Errands
    from torpor.store.postgres.connect import Connection
    from torpor.store.postgres.exchange import Exchange

_NOTIFY = "SELECT pg_notify(%(channel)s, topic) FROM unnest(%(topics)s::text[]) AS t(topic)"


class PostgresTx(
    RunVerbs,
    JournalVerbs,
    WaitVerbs,
    EventVerbs,
    LeaseVerbs,
    FamilyVerbs,
    LineVerbs,
    ScheduleVerbs,
    StreamVerbs,
    BudgetVerbs,
    HistoryVerbs,
    RetentionVerbs,
    MarkVerbs,
):
    """One transaction."""

    def __init__(self, exchange: Exchange, schema: str, errands: Errands | None = None) -> None:
        """Begin to speak to the tables in `schema`."""
        super().__init__(exchange, errands)
        self._schema = schema
        self._channel = channel_of(schema)
        self.hinted: set[str] = set()
        """The topics that are notified with the commit."""

    def alone(self) -> None:
        """Let the next verb that is answered be a transaction by itself, with what was told before it."""
        self._exchange.alone()

    def hint(self, *topics: str) -> None:
        """Notify whoever listens, with the commit."""
        new = [topic for topic in dict.fromkeys(topics) if topic not in self.hinted]
        if new:
            self.hinted.update(new)
            self._tell(_NOTIFY, channel=self._channel, topics=TextArray(new))

    def lend(self) -> AbstractContextManager[Lent]:
        """Lend the connection to a transactional effect (G6)."""
        self._errands.inside = True
        return lent(self._exchange.begun(), self._schema)

    def connection(self) -> Connection:
        """Return the connection of this transaction, for torpor's own housekeeping and its tests."""
        return self._exchange.begun()
