"""What a lab does for people: it approves, denies and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.ids import parse_wait, wait_name
from torpor.core.wait import WaitKind
from torpor.engine.decisions import Decision, decide
from torpor.errors import Conflict, NotFound, UsageError
from torpor.testing import showing
from torpor.testing.funding import Funding
from torpor.testing.run import Run

if TYPE_CHECKING:
    from collections.abc import Mapping


class Deciding(Funding):
    """Decisions of a person."""

    async def approve(
        self,
        what: Run | showing.Wait | str | None = None,
        *,
        by: str = "tester",
        note: str = "",
        edits: Mapping[str, Any] | None = None,
    ) -> None:
        """Approve the open approval of that title, wait or run; without `what` the only one there is.

        `edits` change what was shown, by path. Raises NotFound, UsageError, and Conflict if somebody was first.
        """
        await self._decide(what, WaitKind.APPROVAL, {"approved": True, "by": by, "note": note}, edits)

    async def deny(self, what: Run | showing.Wait | str | None = None, *, by: str = "tester", note: str = "") -> None:
        """Deny it. As `approve`."""
        await self._decide(what, WaitKind.APPROVAL, {"approved": False, "by": by, "note": note})

    async def answer(self, what: Run | showing.Wait | str | None = None, *, by: str = "tester", **answer: Any) -> None:
        """Answer a question: `value=ANSWER`, or a trouble: `happened=RESULT`, `again=True`, `fail="why"`. As `approve`."""
        if len(answer) != 1 or not set(answer) <= {"value", "happened", "again", "fail"}:
            raise UsageError(f"one of value=, happened=, again=True, fail= is an answer, not {answer}")
        kind = WaitKind.QUESTION if "value" in answer else WaitKind.ATTENTION
        await self._decide(what, kind, {**answer, "by": by})

    async def _decide(
        self,
        what: Run | showing.Wait | str | None,
        kind: WaitKind,
        answer: dict[str, Any],
        edits: Mapping[str, Any] | None = None,
    ) -> None:
        run, seq = await self._place(what, kind)
        decided = await self.store.transact(decide, Decision(wait_name(run, seq), answer, kind, edits=edits))
        if isinstance(decided, Conflict):
            raise decided

    async def _place(self, what: Run | showing.Wait | str | None, kind: WaitKind) -> tuple[int, int]:
        if isinstance(what, showing.Wait):
            return parse_wait(what.name)
        number = what.number if isinstance(what, Run) else None
        title = what if isinstance(what, str) else None
        found = await self.store.transact(lambda tx: tx.people_waits(limit=1000))
        fitting = [
            row
            for row in found
            if row.kind is kind and number in {None, row.run_id} and (title is None or row.title == title)
        ]
        if len(fitting) != 1:
            titles = ", ".join(f"{row.title!r}" for row in found) or "nothing"
            raise NotFound(f"{len(fitting)} open waits fit {what!s}; open: {titles}", hint="await lab.settle() first?")
        return fitting[0].run_id, fitting[0].seq
