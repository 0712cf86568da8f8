"""Interrupts: the open calls of a turn are ended, and the run lives on.

An interrupt is a signal under a name of torpor's own, so it is kept if it comes early and is one however often it is sent
(G7). It is consumed by the commit that ends the calls: each gets a failure in the journal, in the order they were made, and
replay hands these to the code as it hands over any other result. Nothing is lost that may have happened: an effect whose
intent is durable is waited for, and what is open after it is ended then; an effect that a person must settle stays open.
A guest's effect is let go instead: the failure says that what it did is unknown, and its end, however late, is only logged.
An interrupt that finds nothing to end until its turn is over is over with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.journal import RESOLVES, Entry, Kind
from torpor.core.replay import CallKind, shown
from torpor.core.wait import INTERRUPT, WaitKind
from torpor.worker.call import Stage
from torpor.worker.spending import SHARED

if TYPE_CHECKING:
    from torpor.core.wait import Signal
    from torpor.sdk.port import Request
    from torpor.worker.call import Call
    from torpor.worker.roles import Executor, Turn

ENDED_BY_INTERRUPT = "Interrupted"
"""The class's name in the failure of a call that was interrupted; `Turn` raises `torpor.Interrupted` for it."""
_ENDS = frozenset(
    {CallKind.STEP, CallKind.APPROVAL, CallKind.MESSAGE, CallKind.TIMER, CallKind.EFFECT, CallKind.JOIN, *SHARED}
)
"""Calls that can be ended from outside. What is recorded with the next commit anyway, as what is sent, is not among them."""


def asked(signals: list[Signal]) -> bool:
    """Whether somebody interrupts."""
    return any(signal.name == INTERRUPT for signal in signals)


def take(executor: Executor) -> list[Signal]:
    """Take the interrupts from what is unread: the next commit consumes them."""
    taken = [signal for signal in executor.unread if signal.name == INTERRUPT]
    executor.unread = [signal for signal in executor.unread if signal.name != INTERRUPT]
    executor.interrupts = False
    return taken


def interrupt(executor: Executor, turn: Turn) -> bool:
    """End what is open and can be ended. False: nothing is, as long as an effect acts or its commit is under way."""
    effects, commits = executor.progress.effects, executor.commits
    if commits.in_flight or not all(_stops(call) for call in effects.going.values()):
        return False
    over = {entry.key for entry in commits.draft.entries if entry.kind in RESOLVES}
    ended = [request for key, request in turn.open.items() if key not in over and _can_end(executor, request)]
    if not ended:
        return False
    signals = take(executor)
    said: dict[str, Any] = executor.bodies.decode(signals[0].body) or {}
    reason = str(said.get("reason") or "")
    commits.draft.taken = (*commits.draft.taken, *(signal.seq for signal in signals))
    begun = {request.key for request in ended if executor.progress.acts(request)}
    for request in ended:
        executor.progress.interrupted(request)
    note = {"note": "interrupted", "by": said.get("by"), "reason": reason, "calls": [shown(r.key) for r in ended]}
    commits.record(Entry(Kind.NOTE, None, executor.bodies.encode(note, "note")))
    failure = {"kind": ENDED_BY_INTERRUPT, "detail": reason, "interrupt": True}
    for request in ended:
        said_of_it = {**failure, "unknown": True} if request.key in begun else failure
        commits.record(Entry(Kind.FAILURE, request.key, executor.bodies.encode(said_of_it, "interrupt")))
    commits.submit()
    return True


def _stops(call: Call) -> bool:
    """Whether an effect can be ended where it is: before its intent was sent, or in the middle if nobody waits for it."""
    return call.stage is Stage.INTENT or (call.stage is Stage.RUNNING and call.request.lets_go)


def _can_end(executor: Executor, request: Request) -> bool:
    if request.kind not in _ENDS or request.withdrawn:
        return False
    if request.timer is not None:
        return request.timer.entry.sleeper is not None
    wait = executor.progress.waiting.get(request.key)
    if request.kind in SHARED:
        return wait is not None  # else it is about to be done
    return wait is None or wait.kind is not WaitKind.ATTENTION
