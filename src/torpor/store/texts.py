"""Texts that a store cannot keep as they are, one treatment for every database (G14).

PostgreSQL's text knows no U+0000, and no encoding knows half of a surrogate pair. Words for people (a wait's title) get
U+FFFD in their place. Whatever is compared later (names, keys) is refused: two different ones must never become equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.names import storable
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUL = "\x00"


def title(text: str) -> str:
    """Return words for people with U+FFFD in place of what cannot be stored."""
    if text.isascii() and _NUL not in text:
        return text
    return text.replace(_NUL, "�").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def check(texts: Iterable[str | None], what: str) -> None:
    """Raise UsageError if one of these names or keys contains U+0000 or a lone surrogate.

    `what` says what they are, for the message. Looking at all of them at once costs a batch next to nothing.
    """
    found = [text for text in texts if text is not None]
    together = "".join(found)
    if together.isascii() and _NUL not in together:
        return
    for text in found:
        if not storable(text):
            raise UsageError(
                f"{what} cannot be stored: {text!r} contains U+0000 or half of a surrogate pair",
                hint="take a name or key that is plain text",
            )
