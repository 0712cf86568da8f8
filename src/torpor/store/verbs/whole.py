"""Verbs about a transaction and the store itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class WholeVerbs(Protocol):
    """The clock, facts, hints, lending."""

    def now(self) -> int:
        """Return the database's clock, read once in this transaction, in microseconds."""

    def alone(self) -> None:
        """Let the next verb that is answered be committed at once, together with hints and other unanswered verbs before it.

        To be said before the first answered verb of a transaction: it may then cost one round trip in all. What comes
        after it is another transaction, and what `op` raises later does not take it back.
        """

    def get_meta(self, key: str) -> str | None:
        """Return a fact about the store."""

    def put_meta(self, key: str, value: str) -> None:
        """Write a fact about the store."""

    def hint(self, *topics: str) -> None:
        """Tell every process that listens, once this transaction has committed. May be lost, may be doubled."""

    def lend(self) -> AbstractContextManager[Any]:
        """Lend the database's connection to a transactional effect for its own writes in this transaction (G6).

        Whoever borrows it can end no transaction, attach no database and touch no table of torpor, and has 2 seconds.
        """
