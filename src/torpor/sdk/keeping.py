"""What a program says about how much of its runs is kept, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from torpor.core.checkpoint import MOST_CHECKPOINTS
from torpor.errors import UsageError

LAYERS = ("runs", "journal", "checkpoints", "stream", "slots")
"""What can be kept for a time of its own."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a program's layers are kept; None keeps one for ever. The waker of any process sees to it.

    `runs`: a run that ended goes so long after its end, with everything of it. `journal`: entries of a run that goes on,
    below its present checkpoint, go at that age. `checkpoints`: older checkpoints can be returned to for so long.
    `stream`: parts that a run emitted go at that age, also while it goes on. `slots`: what became of the slots of the
    program's schedules is known for so long.
    """

    runs: timedelta | None = None
    journal: timedelta | None = None
    checkpoints: timedelta | None = None
    stream: timedelta | None = None
    slots: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse what is no duration. Raises UsageError."""
        for layer in LAYERS:
            given: object = getattr(self, layer)
            if given is not None and (not isinstance(given, timedelta) or given < timedelta(0)):
                message = f"Retention({layer}={given!r}) is no duration from 0"
                raise UsageError(message, hint=f"Retention({layer}=days(30))")


def checked_keep(keep: object, name: str) -> int:
    """Return how many checkpoints a flow keeps. Raises UsageError."""
    if not isinstance(keep, int) or not 0 <= keep <= MOST_CHECKPOINTS:
        message = f"keep_checkpoints={keep!r} of {name} is not a whole number from 0 to {MOST_CHECKPOINTS}"
        raise UsageError(message)
    return keep
