"""`torpor doctor` as lines for people, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.cli.screen import Screen, clean
from torpor.engine.queries.doctor import late_timers
from torpor.engine.queries.spoken import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.engine.queries.doctor import Diagnosis
    from torpor.engine.queries.facts import ClockReset

_LEVELS = {"ok": "green", "warn": "bold yellow", "error": "red"}


def doctor_lines(screen: Screen, found: Diagnosis) -> Iterator[str]:
    """Yield `torpor doctor`, worst first."""
    width = max(len(line.subject) for line in found.lines)
    for line in found.lines:
        level = screen.paint(f"{line.level:<5}", _LEVELS[line.level])
        yield from screen.wrapped(f"{level} {line.subject:<{width}}  ", clean(line.text), width + 8)
        if line.hint:
            yield from screen.wrapped(f"      {'':<{width}}  hint: ", clean(line.hint), width + 14)
    yield f"safe to stop now: {clean(found.safe_to_stop_text)}"
    yield f"{plural(found.warnings, 'warning')}, {plural(found.errors, 'error')}"


def reset_lines(reset: ClockReset) -> Iterator[str]:
    """Yield what `torpor doctor --reset-clock` did, and which runs it cannot wake sooner."""
    yield f"{plural(reset.changed, 'stored time')} brought back to this machine's clock"
    if reset.late:
        text, hint = late_timers(reset.late, round(reset.late_seconds * 1_000_000))
        yield clean(text)
        yield f"  hint: {clean(hint)}"
