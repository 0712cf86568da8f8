"""What an author says about schedules: `@app.schedule("0 9 * * 1-5", zone="Europe/Berlin")` above a flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor.core.schedule import SECOND, Missed, Rule
from torpor.errors import UsageError
from torpor.sdk.steps import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Schedule:
    """A declared schedule: its name (empty: the flow's), whose runs it starts, when, with which input."""

    name: str
    function: Callable[..., Any]
    rule: Rule
    input: Any = None
    tenant: str = "default"
    priority: int = 0


def rule(  # noqa: PLR0913 - what can be said about a schedule
    cron: str = "",
    *,
    every: float | timedelta | None = None,
    zone: str = "UTC",
    missed: str = "latest",
    up_to: int = 10,
    grace: float | timedelta | None = None,
    jitter: float | timedelta = 0,
    stagger: float | timedelta = 0,
    name: str = "schedule",
) -> Rule:
    """Return a rule that was checked; durations are seconds or timedeltas. Raises UsageError, naming what is wrong."""
    from torpor import almanac

    known = [one.value for one in Missed]
    if missed not in known:
        raise UsageError(f"missed={missed!r} is no policy for missed slots", hint=f"one of: {', '.join(known)}")
    made = Rule(
        cron.strip(),
        _micros("every", every) or 0,
        zone,
        Missed(missed),
        up_to,
        _micros("grace", grace),
        _micros("jitter", jitter) or 0,
        _micros("stagger", stagger) or 0,
    )
    almanac.checked(name or "schedule", made, at=0)
    return made


def _micros(what: str, given: float | timedelta | None) -> int | None:
    seconds = seconds_of(given, what)
    return None if seconds is None else round(seconds * SECOND)
