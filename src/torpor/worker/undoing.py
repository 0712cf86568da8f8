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

from typing import TYPE_CHECKING, Any

from torpor.core.commit import NewCompensation
from torpor.core.journal import Entry, Kind
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


def steps_of(executor: Executor, found: ToUndo) -> tuple[list[Undo], list[str]]:
    """Return what is to be undone, and the names of effects that this worker's code has not. Raises StoreError."""
    steps: list[Undo] = []
    missing: list[str] = []
    for n, body in found.registered.items():
        content: dict[str, Any] = executor.bodies.decode(body)
        name = str(content.pop("name"))
        definition = executor.flow.effects.get(name)
        if definition is None:
            missing.append(name)
        else:
            steps.append(Undo(n, definition, content))
    return steps, missing


def read(executor: Executor, found: ToUndo | StoreError) -> tuple[list[Undo], list[str]] | StoreError:
    """Return what a cancelled run is to undo, or why that cannot be read."""
    if isinstance(found, StoreError):
        return found
    executor.bodies.learn(found.blobs)
    try:
        return steps_of(executor, found)
    except StoreError as error:
        return error


def cancelled(executor: Executor, reason: str, undone: int) -> Entry:
    """Return the last entry of a cancelled run."""
    note: dict[str, Any] = {"note": "cancelled"}
    if reason:
        note["why"] = reason
    if undone:
        note["undone"] = undone
    return Entry(Kind.NOTE, None, executor.bodies.encode(note, "note"))
