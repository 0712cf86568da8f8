"""Names that authors and callers give, of signals, events, rates, programs: what can be one."""

from __future__ import annotations

from torpor.core.family import RESERVED
from torpor.errors import UsageError

_LETTERS = 200
AGENT = " (agent)"
"""What the source of an agent ends with, behind the module and the name that it was registered under."""


def storable(text: str) -> bool:
    """Whether both stores can keep a name or key: without U+0000 and halves of surrogate pairs."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def check_name(name: str, what: str) -> None:
    """Raise UsageError for what cannot be a name that others see. `what` says whose it is, for the message."""
    given: object = name
    if not isinstance(given, str) or not 0 < len(given) <= _LETTERS or not storable(given):
        message = (
            f"{what} is a text of 1 to {_LETTERS} letters without U+0000 or half of a surrogate pair, not {name!r}"
        )
        raise UsageError(message, hint="take a name that is plain and short text")
    if name.startswith(RESERVED):
        message = f"{what} does not begin with {RESERVED}, as {name!r} does: what begins so is torpor's own"
        raise UsageError(message, hint="take another name")
