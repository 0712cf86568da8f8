"""What a worker has sent to its store and has no answer of yet: a snapshot waits for it (`quiet`).

Each is counted from before it is sent until its fate is known, so one whose answer was lost counts until it was found out.
Reads are not counted, nor is what is right in every copy: renewals, and the waker's sweeps.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Sending:
    """Counts what is under way, by names for people. Used on the worker's loop only."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._going: Counter[str] = Counter()

    def __bool__(self) -> bool:
        """Whether anything is under way."""
        return bool(self._going)

    def __str__(self) -> str:
        """Name what is under way: `a claim, a commit`."""
        return ", ".join(sorted(self._going))

    def begin(self, what: str) -> None:
        """Count something that is about to be sent."""
        self._going[what] += 1

    def end(self, what: str) -> None:
        """Count it no more: its fate is known."""
        self._going[what] -= 1
        if not self._going[what]:
            del self._going[what]

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Count something as long as a block runs."""
        self.begin(what)
        try:
            yield
        finally:
            self.end(what)
