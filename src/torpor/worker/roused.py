"""Calls and rousals: what fails across one is made again, uncounted, and nothing begins before the worker may act.

A call that was under way while its process slept, was frozen or was copied holds what is of another life: the other side has
hung up, its time is over, or torpor itself let its connection go (`rouse.adapt`). Its error says nothing about what it asked.
A killed worker's call would be made again by whoever takes its run over, so one that merely slept is no worse off.

Only what may be made again is: a step, and an effect whose safety, or whose `verify`, says so. A `once` effect that raised is
a question for a person, as always (G4). A call that spent something has said what of it stays spent and what comes next: an
agent asks its model again by itself. A second failure, in one life, is the call's own; so is the fourth in a row, in whatever
lives: a call that holds the interpreter's lock for seconds looks like a freeze each time.

Until the phases are done and every lease was checked, a call that begins would draw from generators and be handed connections
of the other life. So it waits: a step here, an effect at its gate, which is asked once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor import rouse
from torpor.core.replay import CallKind
from torpor.errors import UnstorableValue

if TYPE_CHECKING:
    from torpor.worker.call import Call
    from torpor.worker.roles import Executor


MOST_AGAIN = 3
"""So often in a row a call is made again without being counted."""


def made_again(executor: Executor, call: Call, error: BaseException) -> bool:
    """Make a failed call again, as soon as the worker may act, if this process was away since the attempt began; say whether.

    The loop may hear that a connection is dead before anything else tells that the machine slept: so the detectors are asked.
    """
    worker, progress, request = executor.worker, executor.progress, call.request
    worker.standing.look()
    again = progress.made_again.get(request.key, 0) + 1
    spent = call.context is not None and call.context.settles
    if call.life == rouse.incarnation() or spent or again > MOST_AGAIN or isinstance(error, UnstorableValue):
        return False
    progress.made_again[request.key] = again
    said = "given back after a rousal" if executor.draining else "again after a rousal"
    worker.log.info(said, run=executor.name, call=request.name, failed=type(error).__name__)
    progress.attempts[request.key] = call.attempt - 1
    if call.context is not None:
        call.context.voice.ended(cancelled=True)  # what it said is taken back: it has no outcome
    progress.effects.going.pop(request.key, None)
    if not executor.draining:  # else whoever takes the run over makes it, as after a takeover: no attempt is on record
        progress.retry(request.key)
    return True


def held(executor: Executor, call: Call) -> bool:
    """Put off a call that may not begin yet, until the worker may act; say whether. Meanwhile it is under way.

    One that may begin is noted to begin in the life in which the worker may act: it is the one that was asked about.
    """
    standing, step = executor.worker.standing, call.request.kind is CallKind.STEP
    if standing.ok() if step else standing.may_write():  # the last moment to see that this process was away
        call.life = standing.incarnation
        return False
    if step:
        executor.worker.outside.spawn(_begin(executor, call))
    else:
        executor.progress.effects.ask_gate(call)
    return True


async def _begin(executor: Executor, call: Call) -> None:
    if not await executor.worker.standing.restore():
        return  # the worker is gone, and says so to all its runs
    if not executor.ended and executor.progress.steps.get(call.request.key) is call:  # else taken back meanwhile
        executor.progress.run(call)
        executor.see_next()
