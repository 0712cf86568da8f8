"""Questions for people that code asks: opened with the entry that holds what is shown, settled by a decision or by time.

A question is bound to exactly what its entry holds (G10). A decision stands on the wait's own row, first one wins; it
becomes an entry when it is consumed. An expiry or a withdrawal is durable only if no decision came before it: the commit
that says so closes the wait, and is refused if somebody decided first (`engine.commit`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.clock import micros
from torpor.core.journal import Entry, Kind
from torpor.core.replay import CallKind
from torpor.core.wait import Open, WaitKind
from torpor.store import values

if TYPE_CHECKING:
    from torpor.core.replay import Record
    from torpor.core.wait import Delivery
    from torpor.sdk.port import Request
    from torpor.worker.roles import Executor, Progress

_SHARED = frozenset({WaitKind.RATE, WaitKind.BUDGET})


class Questions:
    """The questions of one turn."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        """Begin with none."""
        self._executor = executor
        self._worker = executor.worker
        self._progress = progress

    def begin(self, request: Request, record: Record | None) -> None:
        """Ask, or go on waiting for the answer to what was asked before."""
        executor = self._executor
        title = str(request.values["title"])
        if record is not None and record.wait is not None:
            self._progress.waiting[request.key] = self.asked_before(request, record.wait.seq)
            return
        expires = request.expires_seconds
        turn = executor.turn
        opened_at = turn.loop.now if turn is not None else self._worker.now()
        due_at = None if expires is None else max(opened_at, self._worker.now()) + micros(expires)
        shown_value = {
            "title": title,
            "show": request.values["show"],
            "due_at": due_at,
            "digest": values.digest(request.values, path="approval").hex(),
        }
        executor.commits.record(Entry(Kind.WAIT, request.key, executor.bodies.encode(shown_value, "approval")))
        slot = executor.commits.open_wait(WaitKind.APPROVAL, due_at, title)
        self._progress.waiting[request.key] = Open(request.key, WaitKind.APPROVAL, title, due_at, slot=slot)

    def asked_before(self, request: Request, seq: int) -> Open:
        """Return the open wait of a question that was asked before."""
        kind = WaitKind.ATTENTION if request.kind is CallKind.EFFECT else WaitKind.APPROVAL
        row = next((r for r in self._executor.rows.values() if r.seq == seq), None)
        name = request.name if request.kind is CallKind.EFFECT else str(request.values["title"])
        if row is None:
            return Open(request.key, kind, name, slot=-1)
        return Open(request.key, kind, name, row.due_at, slot=row.slot)

    def decided(self, wait: Open, delivery: Delivery) -> None:
        """Turn a person's decision, or an expiry, into entries."""
        if wait.kind in _SHARED:
            self._progress.spending.decided(wait, delivery)
            return
        executor = self._executor
        turn = executor.turn
        row = executor.rows.get(wait.slot)
        request = turn.open.get(wait.key) if turn is not None else None
        answer = executor.bodies.decode(wait.answer) if delivery.decided else {}
        self._progress.waiting.pop(wait.key, None)
        if wait.kind is WaitKind.APPROVAL:
            value = {
                "approved": bool(answer.get("approved", False)),
                "by": str(answer.get("by", "")),
                "note": str(answer.get("note", "")),
                "at": delivery.at,
                "expired": not delivery.decided,
            }
            executor.commits.record(Entry(Kind.CONSUMED, wait.key, executor.bodies.encode(value, "decision")))
            if not delivery.decided and row is not None:
                executor.commits.draft.closes = (*executor.commits.draft.closes, (wait.slot, row.seq))
                self._progress.waiting[wait.key] = wait  # until the close is durable: a decision may have come first
                return
        elif "happened" in answer:
            body = executor.bodies.encode(answer["happened"], "the result a person gave")
            executor.commits.record(Entry(Kind.OUTCOME, wait.key, body))
        elif answer.get("again") and request is not None:
            self._progress.effects.record_intent(request, self._progress.attempts.get(wait.key, 1) + 1)
        else:
            text = str(answer.get("fail") or "a person said that it failed")
            executor.commits.record(
                Entry(Kind.FAILURE, wait.key, executor.bodies.encode({"kind": "Settled", "detail": text}, "error"))
            )
        if wait.slot >= 0:
            executor.commits.draft.over = (*executor.commits.draft.over, wait.slot)

    def withdrawn(self, wait: Open) -> None:
        """Close a question the code gave up, unless a person decided first."""
        if wait.slot >= 0:
            self._executor.commits.withdraw(wait.slot)
