"""When a failed step is tried again. Attempts are journaled, so a run that sleeps between two of them loses none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torpor.errors import UsageError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how late a step is tried again.

    `retries` counts tries after the first. The n-th waits `first_seconds * factor ** (n - 1)`, at most `most_seconds`.
    The pause is spread by up to a tenth, derived from the call's key, so that a thousand runs do not return together and
    a replay still agrees. Exceptions listed in `never` (by class name) are not tried again.
    """

    retries: int = 0
    first_seconds: float = 0.2
    factor: float = 2.0
    most_seconds: float = 60.0
    never: tuple[str, ...] = ()

    NONE: ClassVar[RetryPolicy]

    def __post_init__(self) -> None:
        """Refuse what makes no sense, with the value."""
        least: tuple[tuple[object, int], ...] = (
            (self.retries, 0),
            (self.first_seconds, 0),
            (self.factor, 1),
            (self.most_seconds, 0),
        )
        if not all(isinstance(number, int | float) and number >= bound for number, bound in least):
            message = f"not a retry policy: {self!r}"
            raise UsageError(message, hint="retries, first_seconds and most_seconds are >= 0, factor >= 1")

    def again_at(self, *, attempt: int, error: str, now: int, spread: float) -> int | None:
        """Return when to try again after failed attempt number `attempt` (from 1), in microseconds, or None: give up.

        `error` is the exception's class name, `spread` in [0, 1) comes from the call's key.
        """
        if attempt > self.retries or error in self.never:
            return None
        try:
            pause = min(self.first_seconds * self.factor ** (attempt - 1), self.most_seconds)
        except OverflowError:  # the thousandth doubling is past what a float can say, and long past the most
            pause = self.most_seconds
        return now + round(pause * (0.9 + 0.2 * spread) * 1_000_000)


RetryPolicy.NONE = RetryPolicy()
