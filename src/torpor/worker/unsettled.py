"""What would be lost if a worker let go of a run without a word: what its drain waits for (`stopping`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.effect import Safety
from torpor.core.journal import Kind
from torpor.worker.acting import safety_of
from torpor.worker.call import Call, Stage, buys

if TYPE_CHECKING:
    from torpor.worker.roles import Executor


def unsettled(executor: Executor) -> bool:
    """Whether something would be lost if a run were let go of now.

    An effect that acts, an answer that is paid for and has not come, or a result that is not recorded.
    """
    commits = executor.commits
    sent = commits.under_way
    if sent is not None and sent.transactional:
        return True
    entries = (*commits.draft.entries, *(sent.entries if sent is not None else ()))
    results = any(entry.kind in {Kind.OUTCOME, Kind.FAILURE} for entry in entries)
    return results or buying(executor) or any(map(_is_cut, executor.progress.effects.going.values()))


def buying(executor: Executor) -> bool:
    """Whether an answer of a run is paid for and has not come."""
    return any(map(buys, executor.progress.steps.values()))


def _is_cut(call: Call) -> bool:
    """Whether an effect would be cut. Behind its intent a `once` effect is: nobody can tell that it did not act."""
    safety = safety_of(call.request)
    if safety is Safety.TRANSACTIONAL:  # it acts inside its commit, or not at all
        return False
    return call.stage in {Stage.RUNNING, Stage.RECORDING} or (call.stage is Stage.GATE and safety is Safety.ONCE)
