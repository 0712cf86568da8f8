"""A voice: what one attempt of a step or effect emits with, from the worker's loop or from a thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from torpor.core.stream import PartKind
from torpor.errors import UsageError
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Callable

PART_BYTES = 1 << 20
"""A larger value is refused: a stream is for looking on, not for keeping."""
TEXT_LETTERS = 16_000
"""A part's text is cut at so many letters, and texts of one voice are joined up to it."""


class Voice:
    """One attempt of one call. What it says after its end is not heard."""

    __slots__ = ("_end", "_loop", "_say", "_strike", "done", "key", "number", "over", "written")

    def __init__(
        self,
        key: str,
        loop: asyncio.AbstractEventLoop,
        say: Callable[[Voice, PartKind, str | bytes], None],
        strike: Callable[[bytes], bytes],
        end: Callable[[Voice, bool], None],
    ) -> None:
        """Say what is emitted to `say`, on the loop, and to `end` that the attempt is over.

        `strike` takes resolved secrets out of what is encoded (G15).
        """
        self.key = key
        self.number = 0
        """Given when it speaks first; unlike that of every other voice of this stretch."""
        self.over = False
        """Whether the attempt has ended."""
        self.done = False
        """Whether it was kept or dropped."""
        self.written = False
        """Whether something of it may be in the store."""
        self._loop = loop
        self._say = say
        self._strike = strike
        self._end = end

    def ended(self, *, cancelled: bool) -> None:
        """Take note, on the loop, that the attempt has ended."""
        self._end(self, cancelled)

    def struck(self, text: str) -> str:
        """Return a text without secrets."""
        return self._strike(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def emit(self, part: object) -> None:
        """Say a text or a storable value. Raises UnstorableValue, UsageError if it is too large."""
        kind, said = spoken(part, self._strike)
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - the same without the exception
            self._say(self, kind, said)
            return
        try:
            self._loop.call_soon_threadsafe(self._say, self, kind, said)
        except RuntimeError:
            return  # the loop is closed: nobody hears it any more


def spoken(part: object, strike: Callable[[bytes], bytes]) -> tuple[PartKind, str | bytes]:
    """Return a part as it is gathered: a text as it is, a value encoded."""
    if isinstance(part, str):
        return PartKind.TEXT, part
    return PartKind.VALUE, checked(values.encode(part, path="the emitted value"), strike, "emit")


def checked(body: bytes, strike: Callable[[bytes], bytes], what: str) -> bytes:
    """Return a body without secrets. Raises UsageError if it is too large to be shown."""
    if len(body) > PART_BYTES:
        message = f"{what}: a value of {len(body):,} bytes; at most {PART_BYTES:,} are shown"
        raise UsageError(message, hint="return it from a step, and show what it is called")
    return strike(body)


def texts_of(said: str, strike: Callable[[bytes], bytes]) -> list[bytes]:
    """Return a joined text as bodies, cut where it is too long; secrets are out of it before, for a cut would hide them."""
    if len(said) > TEXT_LETTERS:
        said = strike(said.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    pieces = [said[place : place + TEXT_LETTERS] for place in range(0, len(said), TEXT_LETTERS)]
    return [strike(values.encode(piece, path="the emitted text")) for piece in pieces]


class Mute:
    """Where nothing can be emitted."""

    def __init__(self, why: str) -> None:
        """Say why."""
        self._why = why

    def emit(self, part: object) -> None:
        """Refuse. Raises UsageError."""
        del part
        raise UsageError(self._why, hint="emit in the flow, after it")

    def struck(self, text: str) -> str:
        """Return the text: nothing that is said here leaves the process."""
        return text

    def ended(self, *, cancelled: bool) -> None:
        """Do nothing: it said nothing."""
