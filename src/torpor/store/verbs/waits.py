"""Verbs about waits, signals and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.wait import Signal, TooLate
    from torpor.store.rows import Kept, MessageRow, NewSignal, WaitRow


class WaitVerbs(Protocol):
    """Waits, signals, messages."""

    def waits(self, ids: Sequence[int], *, over: bool = False) -> list[WaitRow]:
        """Return the waits of runs in the order of their entries, answered ones included; with `over` ended ones too."""

    def people_waits(self, *, limit: int) -> list[WaitRow]:
        """Return open waits for people, oldest first."""

    def answer_wait(self, run: int, slot: int, seq: int, answer: bytes) -> bool:
        """Write a decision unless there is one (G10). False: somebody was first, or the wait is over."""

    def add_too_late(self, late: TooLate) -> None:
        """Keep a decision that came too late, for the record."""

    def too_late(self, run: int, *, limit: int) -> list[TooLate]:
        """Return a run's decisions that came too late, oldest first."""

    def add_signals(self, signals: Sequence[NewSignal], *, wake: bool = True) -> list[Kept]:
        """Keep signals, count each run's `inbox` up and make waiting runs ready; say of each signal what became of it.

        A duplicate key counts nothing up and wakes nobody. Agreement lies on the run's row, so that a signal and a
        suspend can never both believe that the other will see to it (G7, `core.run.parked_as`). Without `wake` a
        waiting run sleeps on: whoever calls holds its lock and knows that its wait needs more (G20). A signal that names
        a program is for no run of another one.
        """

    def unread(self, ids: Sequence[int]) -> dict[int, list[Signal]]:
        """Return the unread signals of runs, in order."""

    def outbox(self, *, limit: int) -> list[MessageRow]:
        """Return the oldest messages, locked; whoever delivers waits for who does: a sender's messages keep their order."""

    def drop_messages(self, ids: Sequence[int]) -> None:
        """Remove delivered messages."""
