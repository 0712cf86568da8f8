"""The life of a run as one line of text: tall while it is awake, low while it sleeps. Height says it before colour does.

Each cell is a slice of time. When the line is full, cells are merged in pairs and their slice doubles; what is rare and
matters (a takeover, a question, a person) survives the merging.
"""

from __future__ import annotations

from enum import Enum


class Cell(Enum):
    """What a slice of time looked like: (glyph, ASCII glyph, style, rank in merging, word)."""

    ASLEEP = ("▁", "_", "blue", 0, "asleep")
    AWAKE = ("█", "#", "green", 1, "awake")
    READY = ("░", ".", "cyan", 2, "ready")
    STALLED = ("▒", ":", "red", 3, "its worker is frozen")
    DONE = ("✓", "+", "default", 4, "completed")
    PERSON = ("◆", "!", "bold yellow", 5, "needs a person")
    UNKNOWN = ("?", "?", "bold magenta", 6, "unknown")
    TAKEOVER = ("⌇", "/", "red", 7, "takeover")

    @property
    def style(self) -> str:
        """The colour, one of the terminal's sixteen."""
        return self.value[2]

    @property
    def rank(self) -> int:
        """Which of two merged cells stays: the higher one."""
        return self.value[3]

    @property
    def word(self) -> str:
        """What it means."""
        return self.value[4]

    def glyph(self, *, ascii_only: bool) -> str:
        """The sign for it."""
        return self.value[1] if ascii_only else self.value[0]


class Strip:
    """A line of at most `width` cells."""

    def __init__(self, width: int, slice_seconds: float = 0.25) -> None:
        """Begin empty. `slice_seconds` is how long a cell is at first."""
        self.cells: list[Cell] = []
        self._width = max(2, width)
        self._slice = slice_seconds

    def paint(self, seconds: float, cell: Cell) -> None:
        """Say how it was at so many seconds from the start; what was not said is as it was before."""
        place = int(seconds / self._slice)
        while place >= self._width:
            self._merge()
            place = int(seconds / self._slice)
        while len(self.cells) < place:
            last = self.cells[-1] if self.cells else cell
            self.cells.append(cell if last in {Cell.TAKEOVER, Cell.DONE} else last)
        if len(self.cells) == place:
            self.cells.append(cell)
        elif cell.rank > self.cells[place].rank:
            self.cells[place] = cell

    def _merge(self) -> None:
        pairs = [self.cells[n : n + 2] for n in range(0, len(self.cells), 2)]
        self.cells = [max(pair, key=lambda cell: cell.rank) for pair in pairs]
        self._slice *= 2
