"""Deadlines: a run that has not ended by then is cancelled, and it is on record why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.run import Flag
from torpor.engine import runs
from torpor.engine.sweeps import Swept

if TYPE_CHECKING:
    from torpor.store.protocol import Tx

PASSED = "deadline passed"
SWEEP = 200


def cancel_late(tx: Tx, *, limit: int = SWEEP) -> Swept:
    """Cancel runs whose deadline has passed, a bounded number; a cancel of before keeps its own reason."""
    ids = tx.due_deadlines(before=tx.now(), limit=limit)
    if ids:
        locked = tx.get_runs(sorted(ids), lock=True)
        late = [run for run in locked.values() if not run.state.final and Flag.CANCEL not in run.flags]
        if late:
            tx.put_cancels([(run.id, PASSED) for run in late])
            runs.cancel_locked(tx, late)
        tx.drop_deadlines(ids)
    return Swept(len(ids), len(ids) >= limit, tx.next_deadline() or 0)
