"""What an executor hears, when something comes between the two statements that read it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torpor.core.lease import Lease
from torpor.core.run import Flag
from torpor.core.wait import Signal
from torpor.engine.leases import News
from torpor.worker.hearing import hear

LEASE = Lease(run_id=1, token=7, epoch=1, head=3, worker=1, expires_at=0, flags=Flag.NONE)
FIRST, SECOND = Signal(1, 10, "go", b"1"), Signal(2, 11, "go", b"2")


def executor_at_work() -> Any:
    """Return what `hear` knows of an executor that has heard nothing yet."""
    return SimpleNamespace(
        ended=False,
        commits=SimpleNamespace(pending=False),
        head=3,
        cancelling=False,
        seen=0,
        unread=[],
        interrupts=False,
        rows={},
        resubmit=lambda: None,
    )


def test_a_signal_that_came_behind_the_counter_is_heard_once() -> None:
    """A server reads the run's counter, then a signal is committed, then the unread are read: it is above the counter (G7)."""
    executor = executor_at_work()
    hear(executor, News(LEASE, 1, [FIRST, SECOND], [], {}), LEASE)
    hear(executor, News(LEASE, 2, [FIRST, SECOND], [], {}), LEASE)
    assert executor.unread == [FIRST, SECOND]
    assert executor.seen == 2
