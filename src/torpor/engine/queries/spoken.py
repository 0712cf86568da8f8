"""Durations and sizes as people read them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_TENTHS_BELOW = 10
_WHOLE_DAYS = 10


def duration(micros: int) -> str:
    """Return a duration in its two largest units: `0.2s`, `12s`, `2h 6m`, `4d 12h`, `31d`."""
    seconds = abs(micros) / 1_000_000
    if seconds < 0.0995:  # noqa: PLR2004 - what rounds to less than a tenth
        return f"{seconds * 1000:.0f}ms"
    if seconds < _TENTHS_BELOW:
        return f"{seconds:.1f}s"
    left = round(seconds)
    if left >= _WHOLE_DAYS * 86_400:
        return f"{left // 86_400}d"
    for place, (size, letter) in enumerate(_UNITS[:-1]):
        if left >= size:
            below, below_letter = _UNITS[place + 1]
            rest = left % size // below
            return f"{left // size}{letter} {rest}{below_letter}" if rest else f"{left // size}{letter}"
    return f"{left}s"


def size(count: int) -> str:
    """Return a number of bytes: `412 MB`."""
    amount = float(count)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:  # noqa: PLR2004 - the step of the units
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= _TENTHS_BELOW else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its word: `1 run`, `2 runs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def each_once(titles: Iterable[str]) -> str:
    """Return what is waited for in a line, equal titles once with their number: `approve wire? (2) or a timer`."""
    counts = Counter(titles)
    return " or ".join(f"{title} ({count})" if count > 1 else title for title, count in counts.items())


def wait_words(title: str) -> str:
    """Return how people read what a wait is for: that for an agent's `message` is for no message of a name."""
    return "message" if title == "message message" else title
