"""One transaction on SQLite: all verbs of `store.protocol.Tx`."""

from __future__ import annotations

from torpor.store.sqlite.budgets import BudgetVerbs
from torpor.store.sqlite.events import EventVerbs
from torpor.store.sqlite.families import FamilyVerbs
from torpor.store.sqlite.history import HistoryVerbs
from torpor.store.sqlite.journal import JournalVerbs
from torpor.store.sqlite.leases import LeaseVerbs
from torpor.store.sqlite.lines import LineVerbs
from torpor.store.sqlite.marks import MarkVerbs
from torpor.store.sqlite.retention import RetentionVerbs
from torpor.store.sqlite.runs import RunVerbs
from torpor.store.sqlite.schedules import ScheduleVerbs
from torpor.store.sqlite.streams import StreamVerbs
from torpor.store.sqlite.waits import WaitVerbs


class SqliteTx(
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
