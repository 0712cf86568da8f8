"""What a sweep of the waker gives back. A sweep is a plain function of one transaction, like every operation."""

from __future__ import annotations

from typing import Any, NamedTuple


class Swept(NamedTuple):
    """What one transaction of a sweep did: a bounded number of things, each checked again under its lock.

    `more`: there is certainly more, so the waker comes again at once. `due_at` is the next moment at which this sweep
    will have something to do, in the store's microseconds, as far as it is known; 0: nothing is known to come.
    """

    done: int = 0
    more: bool = False
    due_at: int = 0
    found: Any = None
    """What is to be worked on outside the transaction before more is done (`waker.Sweep.aside`); None: nothing."""
