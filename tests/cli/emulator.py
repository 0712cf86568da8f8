"""A terminal as small as the command line needs: what stands on it after what was written."""

from __future__ import annotations

import re

from torpor.cli.screen import cells

_PIECES = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|(.)", re.DOTALL)


class Emulator:
    """A screen of so many columns and rows, and what has scrolled away above it. It breaks lines as terminals do."""

    def __init__(self, columns: int = 40, rows: int = 10) -> None:
        """Begin empty, the cursor in the first place."""
        self.columns, self.rows = columns, rows
        self.lines = [""]
        self._row = 0
        self._column = 0

    def feed(self, text: str) -> Emulator:
        """Take what is written to the terminal."""
        for count, command, letter in _PIECES.findall(text.replace("\r\n", "\n")):
            if command == "A":
                top = max(0, len(self.lines) - self.rows)
                self._row = max(top, self._row - int(count or 1))
            elif command == "J":
                self.lines = [*self.lines[: self._row], self.lines[self._row][: self._column]]
            elif letter == "\n":
                self._down()
            elif letter == "\r":
                self._column = 0
            elif letter:
                self._write(letter)
            else:
                assert command == "m", f"an unknown command: {command}"
        return self

    def _down(self) -> None:
        self._row, self._column = self._row + 1, 0
        while self._row >= len(self.lines):
            self.lines.append("")

    def _write(self, letter: str) -> None:
        assert letter.isprintable(), f"a control character reached the terminal: {letter!r}"
        line = self.lines[self._row]
        if cells(line[: self._column]) + cells(letter) > self.columns:
            self._down()
            line = self.lines[self._row]
        self.lines[self._row] = line[: self._column].ljust(self._column) + letter + line[self._column + 1 :]
        self._column += 1

    @property
    def text(self) -> str:
        """Everything, from the first line that scrolled away, without spaces at the ends."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")
