"""What an executor hears from the store while it holds its run: signals, decisions, cancel, a stranger's head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.run import Flag
from torpor.worker import interrupting

if TYPE_CHECKING:
    from torpor.core.lease import Lease
    from torpor.engine.leases import News
    from torpor.worker.roles import Executor


def hear(executor: Executor, news: News, lease: Lease) -> None:
    """Take what the store has for this run now; a foreign head means a copy (G2)."""
    if executor.ended:
        return
    if not executor.commits.pending and lease.head > executor.head:  # a lower one was read before our own last commit
        executor.lost("another copy of this worker wrote to the run")
        return
    executor.cancelling = executor.cancelling or Flag.CANCEL in lease.flags
    # a decision may come before the answer to the commit that asked: where it belongs is not known yet, so it was not seen,
    # and whatever puts the run away meanwhile leaves it ready (G7, G10)
    ahead = any(row.seq > executor.head for row in news.waits if row.answered_at is not None)
    if news.inbox > executor.seen and not ahead:
        # a server reads the counter first: what came before the signals were read is above it, and is heard next time (G7)
        executor.unread += [signal for signal in news.unread if executor.seen < signal.seq <= news.inbox]
        executor.seen = news.inbox
        executor.interrupts = executor.interrupts or interrupting.asked(executor.unread)
    for row in news.waits:
        known = executor.rows.get(row.slot)
        if known is not None and known.seq == row.seq and known.answered_at is None:  # answers of two reads may cross
            executor.rows[row.slot] = row
    executor.resubmit()
