"""APScheduler 3: each running scheduler looks at its schedules now. It waits by a clock that stood still while we slept.

What fell due meanwhile is then run, or reported as missed, as its `misfire_grace_time` says; that is its author's decision.
In a copy of the process a `BackgroundScheduler` has no thread: nothing runs there, which is right, and is left so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .waking import loaded

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("apscheduler",)


def classes() -> tuple[type, ...]:
    """Every scheduler."""
    return loaded("apscheduler.schedulers.base", "BaseScheduler")


def wake(waking: Waking, found: list[Any]) -> None:
    """Wake each that runs."""
    for each in found:
        if each.running and not waking.process_copied:
            each.wakeup()
