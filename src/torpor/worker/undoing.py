"""Compensations: what a run registered is undone when it is cancelled, the newest first, and then it ends (G12).

A cancelled run goes on with a turn of torpor's own small flow (`sdk.undoing`): everything that holds for an author's effects
holds for these, intent, gate, retries, questions, replay after a crash. Three things are particular:

* they may start although cancel was asked: commits and gate of this stretch do not ask for it (`Proposal.undoing`);
* one that fails for good is a question for a person, like one whose outcome nobody knows, so that nothing is left undone in
  silence (G13). The answer "it failed" means: go on with the others;
* the run may sleep meanwhile although it was cancelled, which is on its row (`Flag.UNDOING`).

What is registered is read from the store at the beginning of each such stretch, and nothing is registered after a cancel;
so every stretch runs the same, under the same keys (G5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.commit import NewCompensation
from torpor.core.journal import Entry, Kind
from torpor.core.wait import WaitKind
from torpor.errors import StoreError, UsageError
from torpor.sdk.undoing import Undo
from torpor.store import values

if TYPE_CHECKING:
    from torpor.engine.cancels import ToUndo
    from torpor.sdk.port import Request
    from torpor.worker.roles import Executor


def register(executor: Executor, request: Request) -> None:
    """Register a compensation, or take one back, with the next commit."""
    draft, turn = executor.commits.draft, executor.turn
    if request.definition is None:
        draft.dropped = (*draft.dropped, str(request.values["drop"]))
        executor.commits.record(Entry(Kind.OUTCOME, request.key, None))
        return
    known = executor.flow.effects.get(request.name)
    if known is None or known.function is not request.definition.function:
        what = "another effect of the app has this name" if known is not None else "no effect of the app has this name"
        error = UsageError(
            f"on_cancel({request.name}): {what}", hint="declare it with @app.effect, under a name of its own"
        )
        executor.progress.fail(request.key, error, 1)
        return
    ref = f"{turn.turn if turn is not None else 0}:{request.key}"
    content = {"name": request.name, **request.values}
    body = executor.bodies.encode(content, f"the arguments of {request.name}")
    draft.compensations = (*draft.compensations, NewCompensation(request.key, ref, body))
    executor.commits.record(Entry(Kind.OUTCOME, request.key, values.encode(ref)))


class Plan(NamedTuple):
    """What a cancelled run does before it ends: `steps`, unless it is stopped by `trouble` or by what cannot be read."""

    reason: str = ""
    steps: list[Undo] | None = None
    trouble: str = ""
    hint: str = ""
    unreadable: StoreError | None = None


def plan(executor: Executor, found: ToUndo | StoreError, *, over: bool, trouble: str) -> Plan:
    """Decide it from what was read. `over`: a person said to leave it; `trouble` is what keeps it from going on."""
    if isinstance(found, StoreError):
        return Plan(unreadable=found)
    if over or not found.registered:
        return Plan(found.reason)
    if trouble:
        return Plan(found.reason, trouble=trouble, hint="answer --again, or --fail to leave everything undone")
    _withdraw_questions(executor)
    executor.bodies.learn(found.blobs)
    try:
        contents = {n: executor.bodies.decode(body) for n, body in found.registered.items()}
    except StoreError as error:
        return Plan(found.reason, unreadable=error)
    effects = executor.flow.effects
    missing = sorted({str(content["name"]) for content in contents.values()} - set(effects))
    if missing:
        text = f"it was cancelled, and the effect {missing[0]} that undoes something is not in this code"
        return Plan(found.reason, trouble=text, hint="deploy code that has it, then answer --again")
    return Plan(
        found.reason,
        [
            Undo(n, effects[str(content["name"])], {name: value for name, value in content.items() if name != "name"})
            for n, content in contents.items()
        ],
    )


def _withdraw_questions(executor: Executor) -> None:
    """Take what the author's turn asked out of the inbox; a trouble stays, because somebody should know of it."""
    asked = [row.slot for row in executor.rows.values() if row.kind.for_person and row.kind is not WaitKind.ATTENTION]
    executor.commits.draft.over = (*executor.commits.draft.over, *asked)


def last_entry(executor: Executor, done: Plan) -> Entry:
    """Return the last entry of a cancelled run."""
    note: dict[str, Any] = {"note": "cancelled"}
    if done.reason:
        note["why"] = done.reason
    if done.steps:
        note["undone"] = len(done.steps)
    return Entry(Kind.NOTE, None, executor.bodies.encode(note, "note"))
