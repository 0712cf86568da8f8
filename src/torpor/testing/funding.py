"""What a lab does about money."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from torpor.core.ids import wait_name
from torpor.core.money import micros_of
from torpor.core.wait import WaitKind
from torpor.engine.decisions import Decision, decide
from torpor.errors import Conflict

if TYPE_CHECKING:
    from decimal import Decimal

    from torpor.store.protocol import Store
    from torpor.testing import showing
    from torpor.testing.run import Run


class Funding(ABC):
    """Answers of a person to a budget that is short."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store."""

    @abstractmethod
    async def _place(self, what: Run | showing.Wait | str | None, kind: WaitKind) -> tuple[int, int]:
        """Return the run and the entry of a wait."""

    async def fund(
        self,
        what: Run | showing.Wait | str | None = None,
        *,
        more: Decimal | str | int | None = None,
        no: str | None = None,
        by: str = "tester",
    ) -> None:
        """Raise the limit of a budget that is short by `more` dollars, or say `no`; neither: allow it once.

        Raises NotFound, UsageError for what is no amount, and Conflict if somebody was first.
        """
        said: dict[str, Any] = {"once": True} if no is None else {"fail": no}
        if more is not None:
            said = {"raise": micros_of(more, "more", positive=True)}
        run, seq = await self._place(what, WaitKind.BUDGET)
        decided = await self.store.transact(decide, Decision(wait_name(run, seq), {**said, "by": by}, WaitKind.BUDGET))
        if isinstance(decided, Conflict):
            raise decided


def limit_of(budget: Decimal | str | int | None) -> int | None:
    """Return a limit in micro-units. Raises UsageError."""
    return None if budget is None else micros_of(budget, "budget", positive=True)
