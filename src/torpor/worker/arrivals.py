"""Waits that a signal of a reserved name ends: callbacks, events, answers to requests; and what is sent in answer.

Whatever comes for a run lies in its inbox until an entry consumes it, so what came early is there, and the loser of a race
gives nothing back (docs/decisions/0003). Whoever delivers was told that it counts. So the commit that says "it expired" is
refused while something lies in the inbox that this executor has not seen (`Proposal.looked`), and looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.clock import micros
from torpor.core import event, reply, token
from torpor.core.commit import NewMessage, NewReply
from torpor.core.ids import parse_run
from torpor.core.journal import Entry, Kind
from torpor.core.replay import CallKind
from torpor.core.wait import Open, WaitKind
from torpor.errors import TorporError, UsageError
from torpor.store import values
from torpor.worker.acting import key_of

if TYPE_CHECKING:
    from torpor.core.replay import Record
    from torpor.core.wait import Signal
    from torpor.sdk.port import Request
    from torpor.worker.roles import Executor, Progress

EXPIRED = "Expired"
"""The kind of the error with which such a wait ends when nothing came in time."""


class Arrivals:
    """Such waits of one turn."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        """Begin with none."""
        self._executor = executor
        self._worker = executor.worker
        self._progress = progress
        self._prints: dict[int, dict[str, str]] = {}
        self._where: dict[str, dict[str, str]] = {}

    def begin(self, request: Request, record: Record | None) -> None:
        """Register a wait, or go on with one that was; send a request, or an answer."""
        asked = record.wait if record is not None else None
        try:
            if request.kind is CallKind.REPLY:
                self._reply(request)
            elif request.kind is CallKind.REQUEST:
                self._request(request, asked is not None)
            else:
                self._wait(request, None if asked is None else (asked.seq, asked.body))
        except TorporError as error:
            self._progress.fail(request.key, error, 1)

    def _wait(self, request: Request, asked: tuple[int, bytes | None] | None) -> None:
        executor = self._executor
        is_event = request.kind is CallKind.EVENT
        kind = WaitKind.EVENT if is_event else WaitKind.CALLBACK
        name = event.signal_name(request.name) if is_event else self.named(request).signal
        title = str(request.values["title"])
        where: Any = {}
        if is_event:
            where = values.plain(values.encode(request.values["where"]))
            self._where[request.key] = event.prints_of(where)
        if asked is not None:
            row = next((r for r in executor.rows.values() if r.seq == asked[0]), None)
            due_at = executor.bodies.decode(asked[1]).get("due_at")
            slot = row.slot if row is not None else -1
        else:
            due_at = self._due_at(request)
            body: dict[str, Any] = {**request.values, "due_at": due_at}
            matches = None
            if is_event:
                body |= {"name": request.name, "where": where}
                matches = event.wanted_match(request.name, self._where[request.key])
            executor.commits.record(Entry(Kind.WAIT, request.key, executor.bodies.encode(body, request.name)))
            slot = executor.commits.open_wait(kind, due_at, title, matches=matches)
        self._progress.waiting[request.key] = Open(request.key, kind, name, due_at, slot=slot, title=title)

    def _due_at(self, request: Request) -> int | None:
        if request.expires_seconds is None:
            return None
        turn = self._executor.turn
        opened_at = turn.loop.now if turn is not None else 0
        return max(opened_at, self._worker.now()) + micros(request.expires_seconds)

    # callbacks

    def named(self, request: Request) -> token.Named:
        """Return what a callback's token names."""
        run, turn = self._executor.run, self._executor.turn
        return token.Named(run.id, run.branch, turn.turn if turn is not None else 0, token.call_number(request.key))

    # events

    def accepts(self, wait: Open) -> frozenset[int]:
        """Return the numbers of the unread events that have all that a wait asks for."""
        where = self._where[wait.key]
        named = (signal for signal in self._executor.unread if signal.name == wait.name)
        return frozenset(signal.seq for signal in named if event.fits(where, self._prints_of(signal)))

    def _prints_of(self, signal: Signal) -> dict[str, str]:
        if signal.seq not in self._prints:
            shown = values.plain(self._executor.bodies.whole(signal.body or b"null"))
            self._prints[signal.seq] = event.prints_of(shown) if isinstance(shown, dict) else {}
        return self._prints[signal.seq]

    # requests and answers

    def _request(self, request: Request, sent: bool) -> None:  # noqa: FBT001 - whether it is on record
        executor = self._executor
        target = parse_run(str(request.values["to"]))[1]
        if target == executor.run.id:
            message = f"{executor.name} asks itself, and nobody would answer"
            raise UsageError(message, hint="ask another run; what this one knows is in its state")
        key = reply.key_of_request(key_of(executor, request))
        if not sent:
            body = executor.bodies.encode(request.values["value"], f"the value of request {request.name}")
            executor.commits.message(NewMessage(target, request.name, key, body))
            asked = {"title": f"answer to {request.name}", "to": request.values["to"]}
            executor.commits.record(Entry(Kind.WAIT, request.key, executor.bodies.encode(asked, "request")))
        title = f"answer to {request.name} from {request.values['to']}"
        name = reply.signal_name(key)
        self._progress.waiting[request.key] = Open(request.key, WaitKind.MESSAGE, name, title=title)

    def _reply(self, request: Request) -> None:
        executor = self._executor
        value, written = request.values["value"], str(request.values["to"])
        if written:
            address = reply.read_address(written)
            if address.run_id is None:
                body = executor.bodies.encode(value, "the answer")
                executor.commits.draft.replies = (*executor.commits.draft.replies, NewReply(address.key, body))
            else:
                body = executor.bodies.encode({"value": value}, "the answer")
                name = reply.signal_name(address.key)
                executor.commits.message(NewMessage(address.run_id, name, address.key, body))
        executor.commits.record(Entry(Kind.OUTCOME, request.key, None))

    # what came, or did not

    def consumed(self, wait: Open, signal: Signal) -> Entry:
        """Return the entry that consumes a signal."""
        executor = self._executor
        request = executor.turn.open.get(wait.key) if executor.turn is not None else None
        if wait.slot >= 0 and wait.kind.lasting:
            executor.commits.draft.over = (*executor.commits.draft.over, wait.slot)
        if request is not None and request.values.get("whole"):
            about = {
                "name": signal.name,
                "sender": reply.sender_of(signal.sender),
                "at": signal.at,
                "reply_to": reply.address_of(signal.sender),
            }
            whole = values.joined(values.encode(about), value=executor.bodies.whole(signal.body or b"null"))
            return Entry(Kind.CONSUMED, wait.key, executor.bodies.put(whole))
        return Entry(Kind.CONSUMED, wait.key, signal.body)

    def expired(self, wait: Open, at: int) -> None:
        """Record that nothing came in time, unless something did that was not seen yet."""
        executor = self._executor
        told = {"kind": EXPIRED, "detail": f"{wait.title} expired"}
        draft = executor.commits.draft
        draft.looked, draft.not_before = True, max(draft.not_before, at)
        executor.commits.record(Entry(Kind.FAILURE, wait.key, executor.bodies.encode(told, "error")))
        if wait.slot >= 0:
            draft.over = (*draft.over, wait.slot)
