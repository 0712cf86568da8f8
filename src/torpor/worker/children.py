"""Children that code starts and joins: asked for by a message, heard of through reserved signals (`core.family`).

A start is an entry and a message in one commit, which is refused once cancel was asked (G12); the child's id comes back
as a signal. A join waits for the signal of the child's end, or for those of several, all of them. Before it sleeps for an
end that did not come yet it asks the store whether that can come at all: a run that is not a child of this one, or one
whose end was given out before, would be waited for in vain (G13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.commit import MessageKind, NewMessage
from torpor.core.family import done_name, started_name, wishes
from torpor.core.ids import parse_run
from torpor.core.journal import Entry, Kind
from torpor.core.replay import CallKind
from torpor.core.run import State
from torpor.core.wait import Open, WaitKind
from torpor.engine.family import Joinable
from torpor.errors import ChildFailed, StoreError, TorporError, UsageError
from torpor.worker.acting import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torpor.core.replay import Record
    from torpor.core.wait import Delivery, Signal
    from torpor.sdk.port import Request
    from torpor.worker.roles import Executor, Progress

_COMPLETED = State.COMPLETED.word


class Children:
    """The children that one turn starts and joins."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        """Begin with none."""
        self._executor = executor
        self._progress = progress
        self._starting: set[str] = set()
        self.asking: dict[str, tuple[str, ...]] = {}
        """Joins for which the store is being asked, and the signals they are for."""

    def begin(self, request: Request, record: Record | None) -> None:
        """Start a child or join some, or go on waiting for that."""
        if request.kind is CallKind.SPAWN:
            self._spawn(request, record)
        else:
            self._join(request)

    # starting

    def _spawn(self, request: Request, record: Record | None) -> None:
        executor, given = self._executor, request.values
        key = key_of(executor, request)
        if record is None or record.wait is None:
            try:
                body = executor.bodies.encode(given["input"], f"the input of {request.name}")
            except TorporError as error:
                self._progress.fail(request.key, error, 1)
                return
            trace = executor.trace
            detail = wishes(str(given["key"]), given.get("budget"), trace.traceparent if trace is not None else "")
            if trace is not None:
                trace.note("child", program=request.name)
            kind = MessageKind.SPAWN_INDEPENDENT if given["independent"] else MessageKind.SPAWN
            executor.commits.message(NewMessage(0, request.name, key, body, kind, detail))
            shown = {"child": request.name, "independent": given["independent"]}
            executor.commits.record(Entry(Kind.WAIT, request.key, executor.bodies.encode(shown, "child")))
        self._starting.add(request.key)
        self._progress.waiting[request.key] = Open(
            request.key, WaitKind.CHILD, request.name, names=(started_name(key),)
        )

    # joining

    def _join(self, request: Request) -> None:
        numbers = dict.fromkeys(parse_run(child)[1] for child in request.values["children"])
        names = tuple(done_name(number) for number in numbers)
        awaited = {name for wait in self._progress.waiting.values() for name in wait.names}
        awaited.update(name for asked in self.asking.values() for name in asked)
        if awaited.intersection(names):
            message = f"{request.name} is being joined already"
            self._progress.fail(request.key, UsageError(message, hint="join each child once, and share its result"), 1)
        elif {signal.name for signal in self._executor.unread}.issuperset(names):
            self._wait(request, names)
        else:
            self.asking[request.key] = names
            self._executor.worker.outside.ask_joinable(
                self._executor, [*numbers], lambda found: self._asked(request, names, found)
            )

    def _wait(self, request: Request, names: tuple[str, ...]) -> None:
        kind = WaitKind.CHILDREN if request.values.get("all") else WaitKind.CHILD
        self._progress.waiting[request.key] = Open(request.key, kind, request.name, names=names)

    def _asked(self, request: Request, names: tuple[str, ...], found: Mapping[int, Joinable] | StoreError) -> None:
        """Take what the store says about the runs that are to be joined."""
        self.asking.pop(request.key, None)
        executor, turn = self._executor, self._executor.turn
        if executor.ended or turn is None or turn.open.get(request.key) is not request:
            executor.see_next()
        elif isinstance(found, StoreError):
            executor.unreadable(found)
        else:
            for child in request.values["children"]:
                error = _refusal(child, executor.name, found[parse_run(child)[1]])
                if error is not None:
                    self._progress.fail(request.key, error, 1)
                    break
            else:
                self._wait(request, names)
            executor.see_next()

    # what came

    def consume(self, delivery: Delivery) -> None:
        """Turn news of children into entries. Of several starts all are taken: withdrawing one takes nothing back."""
        wait = delivery.wait
        if wait.key not in self._starting:
            self._take(delivery.signals)
            self._joined(wait, delivery.signals)
            return
        unread = {signal.name: signal for signal in self._executor.unread}
        for key in [key for key in self._progress.waiting if key in self._starting]:
            signal = unread.get(self._progress.waiting[key].names[0])
            if signal is not None:
                self._take((signal,))
                self._started(key, signal)
                del self._progress.waiting[key]

    def _take(self, signals: Iterable[Signal]) -> None:
        draft = self._executor.commits.draft
        for signal in signals:
            self._executor.unread.remove(signal)
            draft.taken = (*draft.taken, signal.seq)

    def _started(self, key: str, signal: Signal) -> None:
        executor = self._executor
        said: dict[str, Any] = executor.bodies.decode(signal.body)
        if "run" in said:
            executor.commits.record(Entry(Kind.CONSUMED, key, executor.bodies.encode(said["run"], "child")))
            return
        if "refused" in said:
            self._progress.fail(key, UsageError(said["refused"], hint=said["hint"]), 1)
            return
        has = ", ".join(said["known"]) or "none yet"
        message = f'no program named "{said["unknown"]}" (the store has: {has})'
        hint = "torpor dev APP.py or torpor worker APP.py makes its programs known"
        self._progress.fail(key, UsageError(message, hint=hint), 1)

    def _joined(self, wait: Open, signals: tuple[Signal, ...]) -> None:
        executor, turn = self._executor, self._executor.turn
        request = turn.open.get(wait.key) if turn is not None else None
        if request is None:
            return
        ended = dict(zip(wait.names, signals, strict=True))
        children = [(child, ended[done_name(parse_run(child)[1])]) for child in request.values["children"]]
        failed = [(child, signal) for child, signal in children if signal.sender != _COMPLETED]
        if failed and not request.values.get("exceptions"):
            said = self._failure(*failed[0]) | {"joined": [*dict.fromkeys(request.values["children"])]}
            body = executor.bodies.encode(said, "error")
            executor.commits.record(Entry(Kind.FAILURE, wait.key, body))
        elif request.values.get("all"):
            parts = b",".join(self._part(child, signal) for child, signal in children)
            executor.commits.record(Entry(Kind.CONSUMED, wait.key, executor.bodies.put(b"[" + parts + b"]")))
        else:
            executor.commits.record(Entry(Kind.CONSUMED, wait.key, signals[0].body))

    def _part(self, child: str, signal: Signal) -> bytes:
        """Return one child's end as an element of a list's body: bodies are JSON, so they nest as they are."""
        bodies = self._executor.bodies
        if signal.sender == _COMPLETED:
            return b'["completed",' + bodies.whole(signal.body or b"null") + b"]"
        return b'["failed",' + bodies.whole(bodies.encode(self._failure(child, signal), "error")) + b"]"

    def _failure(self, child: str, signal: Signal) -> dict[str, Any]:
        if signal.sender == State.CANCELLED.word:
            return {"child": child, "kind": "Cancelled", "detail": "it was cancelled"}
        said = self._executor.bodies.decode(signal.body)
        return {**(said if isinstance(said, dict) else {}), "child": child}

    def title_of(self, wait: Open) -> str:
        """Return what a wait is for, in the words people see."""
        if wait.key in self._starting:
            return f"start of child {wait.name}"
        return wait.name if wait.kind is WaitKind.CHILDREN else f"child {wait.name}"


def _refusal(child: str, run: str, joinable: Joinable) -> UsageError | None:
    """Return why a run cannot be joined, or None."""
    if joinable is Joinable.NO:
        hint = "join takes the id that ctx.spawn returned; a fork has none of its source's children: fork before they started"
        return UsageError(f"{child} is not a child of {run}", hint=hint)
    if joinable is Joinable.BEFORE:
        return UsageError(f"{child} was joined before", hint="keep its result in the state of the flow")
    return None


def settled(request: Request, value: Any) -> Any:
    """Return what code gets for a join: results, and errors in their places if it asked for them."""
    if not request.values.get("all"):
        return value
    return [part if word == "completed" else failure_of(part) for word, part in value]


def failure_of(recorded: dict[str, Any], key: str = "") -> TorporError:
    """Return the error code sees for a start or a join that failed: the same live and in replay."""
    kind, detail = str(recorded.get("kind", "")), str(recorded.get("detail", ""))
    hint, child = str(recorded.get("hint") or ""), str(recorded.get("child", ""))
    if not child:
        return UsageError(detail, hint=hint)
    said = "was cancelled" if kind == "Cancelled" else f"failed: {kind}: {detail}"
    hint = hint or f"torpor show {child}"
    failed = ChildFailed(f"child {child} {said}", child=child, kind=kind, detail=detail, hint=hint)
    failed.call = key
    return failed
