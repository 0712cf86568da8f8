"""Consuming: which satisfied wait is next, and the entry that takes what satisfied it.

One wait at a time, the earliest first: what the code does with one may withdraw another, which then has taken nothing
(docs/decisions/0003).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.journal import Entry, Kind
from torpor.core.wait import WaitKind, next_delivery

if TYPE_CHECKING:
    from torpor.worker.roles import Executor


def consume(executor: Executor) -> None:
    """Choose the next satisfied wait, if none is being consumed, and journal what satisfied it."""
    progress, commits = executor.progress, executor.commits
    if executor.consuming is not None or executor.turn is None or not progress.waits:
        return
    progress.spending.look_again()
    delivery = next_delivery(progress.open_waits(), executor.unread, now=executor.worker.now())
    if delivery is None:
        return
    wait = delivery.wait
    if wait.kind is WaitKind.RETRY:
        if not executor.draining:
            progress.retry(wait.key)
        return
    executor.consuming, executor.behind = wait.key, commits.under_way  # the answer to that one is not about this (G7)
    if delivery.signals:
        progress.children.consume(delivery)
    elif delivery.signal is not None:
        executor.unread.remove(delivery.signal)
        commits.draft.taken = (*commits.draft.taken, delivery.signal.seq)
        commits.record(progress.arrivals.consumed(wait, delivery.signal))
    elif wait.kind is WaitKind.TIMER:
        commits.draft.not_before = max(commits.draft.not_before, delivery.at)
        commits.record(Entry(Kind.CONSUMED, wait.key, None))
    elif wait.kind.by_signal:
        progress.arrivals.expired(wait, delivery.at)
    else:
        progress.questions.decided(wait, delivery)
