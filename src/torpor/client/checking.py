"""What callers give besides values: refused with its name and what would be right, before the store is asked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from torpor.core.names import storable
from torpor.errors import UsageError

_KEY_LETTERS = 500


def check_key(key: object, what: str) -> None:
    """Raise UsageError for a key that could not make a repetition the same: empty, too long, or no text."""
    if key is None or (isinstance(key, str) and 0 < len(key) <= _KEY_LETTERS and storable(key)):
        return
    given = f"one of {len(key):,} letters" if isinstance(key, str) and len(key) > _KEY_LETTERS else repr(key)
    message = f"{what} is a text of 1 to {_KEY_LETTERS} letters without U+0000 or half of a surrogate pair, not {given}"
    raise UsageError(message, hint="what names the thing itself: an order's number, a message's id")


def check_text(given: object, what: str) -> None:
    """Raise UsageError for what is no text that a store keeps."""
    if not isinstance(given, str) or not storable(given):
        message = f"{what} is a text without U+0000 or half of a surrogate pair, not {given!r}"
        raise UsageError(message, hint=f'{what}="..."')


def check_whole(given: object, what: str, hint: str) -> None:
    """Raise UsageError for what is no whole number; True is none, neither is 1.0."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise UsageError(f"{what} is a whole number, not {given!r}", hint=hint)


def check_start(options: dict[str, Any]) -> None:
    """Raise UsageError for an option of a start that has the wrong type; what its value may be the engine says."""
    for what in ("program", "tenant", "tag", "line"):
        check_text(options[what], what)
    check_key(options["key"], "key")
    check_whole(options["priority"], "priority", "a lower number goes first; 0 is usual")
    check_whole(options["line_limit"], "line_limit", "how many runs of the line go at once: line_limit=1")
    if options["at"] is not None and not isinstance(options["at"], datetime):
        raise UsageError(f"at is a datetime with a time zone, not {options['at']!r}", hint="datetime(..., tzinfo=UTC)")
    if options["deadline"] is not None and not isinstance(options["deadline"], datetime | timedelta):
        message = f"deadline is a datetime with a time zone or a timedelta, not {options['deadline']!r}"
        raise UsageError(message, hint="deadline=hours(2)")
