"""What a waker would do, done once; and whether that was all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.ids import run_name
from torpor.core.run import State
from torpor.engine import budgets, deadlines, events, follow_ups, leases, lines, schedules, waits
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torpor.core.lease import Proof
    from torpor.store.protocol import Tx


def sweep(tx: Tx, dead: Mapping[int, Proof]) -> None:
    """Do what a waker does: timers, messages, dead workers."""
    waits.fire_timers(tx)
    if (found := schedules.look(tx).found) is not None:
        schedules.worked_out(found)(tx)
    waits.deliver(tx)
    follow_ups.settle(tx)
    deadlines.cancel_late(tx)
    lines.admit(tx)
    budgets.wake(tx)
    while events.fan_out(tx).more:
        pass
    leases.reap(tx, dead, quiet_until=0)
    tx.drop_workers(list(dead))


def going_on(tx: Tx) -> bool:
    """Whether anything can go on now. In one view of the store: a run becomes a message, and a message a run."""
    stirred = tx.stirred_lines(limit=1) or tx.stirred_budgets(limit=1)
    return bool(stirred or tx.undelivered() or any(tx.count_runs([State.READY, State.RUNNING], most=1).values()))


def next_due(tx: Tx) -> int | None:
    """Return when something falls due next."""
    return min(
        (due for due in (tx.next_due(), tx.next_slot_due(), tx.next_deadline()) if due is not None), default=None
    )


def names_of(tx: Tx) -> list[tuple[str, State]]:
    """Return the public ids of runs that are ready or running, and which they are."""
    programs = {row.id: row.name for row in tx.programs()}
    found = tx.list_runs(RunFilter(states=[State.READY, State.RUNNING]))
    return [(run_name(programs[row.program], row.id), row.state) for row in found]
