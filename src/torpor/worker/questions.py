"""Questions for people that code asks: opened with the entry that holds what is shown, settled by a decision or by time.

A question is bound to exactly what its entry holds (G10). A decision stands on the wait's own row, first one wins; it
becomes an entry when it is consumed. An expiry or a withdrawal is durable only if no decision came before it: the commit
that says so closes the wait, and is refused if somebody decided first (`engine.commit`).

Whoever takes an answer or an edit checks it against the schema in the entry, without the program's classes. What only the
classes know is checked here, when it is consumed: an answer that they refuse is not used, and the question is asked again,
under a wait of its own, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.clock import micros
from torpor.core.journal import Entry, Kind
from torpor.core.replay import CallKind
from torpor.core.schema import same
from torpor.core.wait import SAID_FAILED, SAYS_RESULT, SETTLED, Open, WaitKind
from torpor.errors import TorporError, UsageError
from torpor.store import values
from torpor.worker import fitting

if TYPE_CHECKING:
    from torpor.core.replay import Record
    from torpor.core.wait import Delivery
    from torpor.sdk.port import Request
    from torpor.worker.roles import Executor, Progress

_SHARED = frozenset({WaitKind.RATE, WaitKind.BUDGET})
_KINDS = {
    CallKind.EFFECT: WaitKind.ATTENTION,
    CallKind.APPROVAL: WaitKind.APPROVAL,
    CallKind.ASK: WaitKind.QUESTION,
}


class Questions:
    """The questions of one turn."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        """Begin with none."""
        self._executor = executor
        self._worker = executor.worker
        self._progress = progress
        self._shown: dict[str, bytes] = {}
        """By key, the body of the entry that asked it last."""

    def begin(self, request: Request, record: Record | None) -> None:
        """Ask, or go on waiting for the answer to what was asked before."""
        if record is not None and record.wait is not None:
            asked = self.asked_before(request, record.wait.seq)
            if asked.slot >= 0 or request.withdrawn:
                self._shown[request.key] = record.wait.body or b""
                self._progress.waiting[request.key] = asked
                return  # otherwise it was closed when code did not ask for it: it is asked afresh
        try:
            self._ask(request)
        except TorporError as error:
            self._progress.fail(request.key, error, 1)

    def _ask(self, request: Request, refused: str = "") -> None:
        """Open a wait. Raises UsageError for a schema that cannot be checked, UnstorableValue."""
        executor = self._executor
        kind, title = _KINDS[request.kind], str(request.values["title"])
        due_at = self._due_at(request)
        body: dict[str, Any] = {
            **request.values,
            "due_at": due_at,
            "digest": values.digest(request.values, path=request.name).hex(),
        }
        schema = fitting.schema_of(request.fits)
        if schema is not None:
            body["schema"] = schema
        if refused:
            body["refused"] = refused
        self._shown[request.key] = encoded = executor.bodies.encode(body, request.name)
        executor.commits.record(Entry(Kind.WAIT, request.key, encoded))
        slot = executor.commits.open_wait(kind, due_at, title)
        self._progress.waiting[request.key] = Open(request.key, kind, title, due_at, slot=slot)

    def _due_at(self, request: Request) -> int | None:
        if request.key in self._shown:  # asked again: time goes on
            due_at = self._executor.bodies.decode(self._shown[request.key]).get("due_at")
            return None if due_at is None else int(due_at)
        if request.expires_seconds is None:
            return None
        turn = self._executor.turn
        opened_at = turn.loop.now if turn is not None else self._worker.now()
        return max(opened_at, self._worker.now()) + micros(request.expires_seconds)

    def asked_before(self, request: Request, seq: int) -> Open:
        """Return the open wait of a question that was asked before."""
        kind = _KINDS[request.kind]
        row = next((r for r in self._executor.rows.values() if r.seq == seq), None)
        name = request.name if request.kind is CallKind.EFFECT else str(request.values["title"])
        if row is None:
            return Open(request.key, kind, name, slot=-1)
        return Open(request.key, kind, name, row.due_at, slot=row.slot)

    def forget(self, seq: int) -> None:
        """Close a question that code does not ask any more: consent to something else is consent to nothing (G10)."""
        for row in self._executor.rows.values():
            if row.seq == seq:
                self._executor.commits.withdraw(row.slot)
                if row.answered_at is not None:
                    note = self._executor.bodies.encode({"note": f"an answer was not used: {row.title}"}, "note")
                    self._executor.commits.record(Entry(Kind.NOTE, None, note))
                    self._over(row.slot)
                return

    # deciding

    def decided(self, wait: Open, delivery: Delivery) -> None:
        """Turn a person's decision, or an expiry, into entries."""
        if wait.kind in _SHARED:
            self._progress.spending.decided(wait, delivery)
            return
        turn = self._executor.turn
        request = turn.open.get(wait.key) if turn is not None else None
        answer = self._executor.bodies.decode(wait.answer) if delivery.decided else {}
        self._progress.waiting.pop(wait.key, None)
        if wait.kind is WaitKind.ATTENTION:
            self._settled(wait, answer, request)
        elif request is not None:
            said = {"by": str(answer.get("by", "")), "at": delivery.at, "expired": not delivery.decided}
            try:
                said |= self._approved(request, answer) if wait.kind is WaitKind.APPROVAL else _answer(request, answer)
            except UsageError as refused:
                self._over(wait.slot)
                self._ask(request, f"{said['by']}: {refused.message}")
                return
            if self._consumed(wait, said, decided=delivery.decided):
                return
        if wait.slot >= 0:
            self._over(wait.slot)

    def _consumed(self, wait: Open, said: dict[str, Any], *, decided: bool) -> bool:
        """Record what came of a question. True: it expired, and the commit that says so closes the wait."""
        executor = self._executor
        executor.commits.record(Entry(Kind.CONSUMED, wait.key, executor.bodies.encode(said, "decision")))
        row = executor.rows.get(wait.slot)
        if decided or row is None:
            return False
        executor.commits.draft.closes = (*executor.commits.draft.closes, (wait.slot, row.seq))
        self._progress.waiting[wait.key] = wait  # until the close is durable: a decision may have come first
        return True

    def _approved(self, request: Request, answer: dict[str, Any]) -> dict[str, Any]:
        """Return a decision about an approval, with what may run now: as it was shown, or as a person edited it."""
        said = {"approved": bool(answer.get("approved", False)), "note": str(answer.get("note", ""))}
        if not said["approved"]:
            return said
        if "edited" in answer:
            return {**said, "edited": True, "value": fitting.refit(answer["edited"], request.fits)}
        return {**said, "value": self._executor.bodies.decode(self._shown[request.key])["show"]}

    def _settled(self, wait: Open, answer: dict[str, Any], request: Request | None) -> None:
        executor = self._executor
        if "happened" in answer:
            happened = answer["happened"]
            definition = request.definition if request is not None else None
            if answer.get(SAYS_RESULT) and definition is not None and definition.settled is not None:
                happened = definition.settled(happened, str(answer.get("by", "")))
            body = executor.bodies.encode(happened, "the result a person gave")
            executor.commits.record(Entry(Kind.OUTCOME, wait.key, body))
        elif answer.get("again") and request is not None:
            self._progress.effects.record_intent(request, self._progress.attempts.get(wait.key, 1) + 1)
        else:
            text = str(answer.get("fail") or SAID_FAILED)
            body = executor.bodies.encode({"kind": SETTLED, "detail": text}, "error")
            executor.commits.record(Entry(Kind.FAILURE, wait.key, body))

    def _over(self, slot: int) -> None:
        self._executor.commits.draft.over = (*self._executor.commits.draft.over, slot)

    def withdrawn(self, wait: Open) -> None:
        """Close a question the code gave up, unless a person decided first."""
        if wait.slot >= 0:
            self._executor.commits.withdraw(wait.slot)


def _answer(request: Request, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a question, as the value that the code offered or asked for. Raises UsageError."""
    if "value" not in answer:
        return {}
    value = answer["value"]
    if request.values.get("choices") is not None:
        seen = values.exact(values.encode(value))
        for choice in request.values["choices"]:
            if same(values.exact(values.encode(choice)), seen):
                return {"value": choice}
        message = f"{value!r} is none of the choices"
        raise UsageError(message)
    return {"value": fitting.fitted(value, request.fits)}
