"""The life of a run as one line of text: tall while it is awake, low while it sleeps. Height says it before colour does.

A stretch of one kind is as long as it took, but never shorter than a cell: a takeover is over in no time, and is what
one looks for.
"""

from __future__ import annotations

from enum import Enum


class Cell(Enum):
    """What a run looks like: (glyph, ASCII glyph, style, word)."""

    ASLEEP = ("▁", "_", "blue", "asleep")
    AWAKE = ("█", "#", "green", "awake")
    READY = ("░", ".", "cyan", "ready")
    STALLED = ("▒", ":", "red", "its worker does nothing")
    PERSON = ("◆", "!", "bold yellow", "needs a person")
    UNKNOWN = ("?", "?", "bold magenta", "unknown effect")
    TAKEOVER = ("⌇", "/", "red", "takeover")
    DONE = ("✓", "+", "default", "completed")

    @property
    def style(self) -> str:
        """The colour, one of the terminal's sixteen."""
        return self.value[2]

    @property
    def word(self) -> str:
        """What it means."""
        return self.value[3]

    def glyph(self, *, ascii_only: bool) -> str:
        """The sign for it."""
        return self.value[1] if ascii_only else self.value[0]


class Strip:
    """Stretches in order, each with its kind and when it began, in seconds of any one clock."""

    def __init__(self) -> None:
        """Begin empty."""
        self._stretches: list[tuple[Cell, float]] = []
        self._now = 0.0

    def paint(self, at: float, cell: Cell) -> None:
        """Say how it is from now on; the same again makes the stretch longer."""
        self._now = at
        if not self._stretches or self._stretches[-1][0] is not cell:
            self._stretches.append((cell, at))

    def cells(self, width: int, slice_seconds: float = 0.25) -> list[Cell]:
        """Return at most `width` cells; each stands for a slice of time, a longer one if they would not fit."""
        kept = self._stretches[-max(1, width) :]
        if not kept:
            return []
        ends = [began for _, began in kept[1:]] + [self._now]
        seconds = [end - began for (_, began), end in zip(kept, ends, strict=True)]
        while True:
            lengths = [max(1, round(each / slice_seconds)) for each in seconds]
            if sum(lengths) <= max(len(kept), width):
                return [cell for (cell, _), length in zip(kept, lengths, strict=True) for _ in range(length)]
            slice_seconds *= 1.25
