"""What all verbs of a transaction on PostgreSQL share: the talk with the server, and the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.store.outside import Errands, Outside

if TYPE_CHECKING:
    from torpor.store.postgres.exchange import Exchange


class Begun:
    """A transaction. Nothing is sent before the first verb."""

    def __init__(self, exchange: Exchange, errands: Errands | None = None) -> None:
        """Begin to speak."""
        self._exchange = exchange
        self._errands = errands or Errands(Outside())
        self._now = 0

    def now(self) -> int:
        """Return the database's clock, read once: by the first statement that needs it, or here."""
        if self._now == 0:
            self._now = int(self._ask("SELECT torpor_now()")[0][0])
        return self._now

    def _ask(self, statement: str, **params: Any) -> list[tuple[Any, ...]]:
        return self._exchange.ask(statement, params)

    def _tell(self, statement: str, **params: Any) -> None:
        self._exchange.tell(statement, params)
