"""What the terminal can show, and how lines are fitted to it.

Colours are the terminal's sixteen, so the user's theme wins; a state is a glyph and a word before it is a colour. Values
come from stores and authors, so control characters in them are written out and never reach the terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WIDE = 10_000
"""The width where nothing is cut: output that goes to a file or a program."""
_LEAST = 20
PAINT = re.compile(r"\x1b\[[0-9;]*m")
"""What paints, and takes no room."""
_CODES = {
    "cyan": "36",
    "green": "32",
    "blue": "34",
    "red": "31",
    "bold": "1",
    "dim": "2",
    "bold yellow": "1;33",
    "bold magenta": "1;35",
}
_GLYPHS = {
    "ready": ("○", "o", "cyan"),
    "running": ("●", "*", "green"),
    "asleep": ("◡", "~", "blue"),
    "needs you": ("◆", "!", "bold yellow"),
    "failed": ("✕", "x", "red"),
    "unknown": ("?", "?", "bold magenta"),
    "completed": ("✓", "+", ""),
    "cancelled": ("\u2013", "-", "dim"),
}
"""Each display word: its glyph, its ASCII glyph, its colour."""
_ASCII = str.maketrans({"…": "~", "\u2013": "-", "—": "-", "·": "."})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `fixed` ones are never cut (ids); others give way, from the right, when the line is too long.

    What a `spare` one says stands elsewhere in the line too: it is the first to be left out.
    """

    title: str
    fixed: bool = False
    right: bool = False
    least: int = 8
    spare: bool = False


class Screen:
    """Where lines go, and what may be in them."""

    def __init__(self, out: IO[str], *, width: int, colour: bool, unicode: bool) -> None:
        """Draw for a place with these abilities."""
        self.out = out
        self.width = max(width, _LEAST)
        self.colour = colour
        self.unicode = unicode

    @classmethod
    def of(cls, out: IO[str] | None = None, environment: Mapping[str, str] | None = None) -> Screen:
        """Return the screen behind a stream, standard output if none is named.

        `NO_COLOR` beats `FORCE_COLOR`; `TERM=dumb` and what is not a terminal are plain.
        """
        stream = sys.stdout if out is None else out
        given = os.environ if environment is None else environment
        terminal = stream.isatty()
        colour = terminal and given.get("TERM") != "dumb"
        if given.get("FORCE_COLOR", "0") != "0":
            colour = True
        if given.get("NO_COLOR"):
            colour = False
        utf8 = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
        plain_locale = given.get("LC_ALL") in {"C", "POSIX"}
        fits = terminal or bool(given.get("COLUMNS"))
        width = shutil.get_terminal_size().columns if fits else _WIDE
        return cls(stream, width=width, colour=colour, unicode=utf8 and not plain_locale)

    def say(self, text: str = "") -> None:
        """Write a line."""
        self.put(f"{text}\n")

    def put(self, text: str) -> None:
        """Write a piece of a line, or lines."""
        shown = text if self.unicode else text.translate(_ASCII)
        self.out.write(shown.encode(self._encoding, "replace").decode(self._encoding))
        self.out.flush()

    @property
    def _encoding(self) -> str:
        return getattr(self.out, "encoding", None) or "utf-8"

    def paint(self, text: str, colour: str) -> str:
        """Return text in a colour, if there are colours."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colour and colour else text

    def glyph(self, word: str) -> str:
        """Return the painted glyph of a display word, a space for none."""
        if not word:
            return " "
        sign, plain_sign, colour = _GLYPHS[word]
        return self.paint(sign if self.unicode else plain_sign, colour)

    def state(self, word: str, text: str) -> str:
        """Return text in the colour of a display word."""
        return self.paint(text, _GLYPHS[word][2]) if word else text

    def fit(self, text: str, room: int) -> str:
        """Return text cut to so many cells, with a mark where it was cut."""
        if cells(text) <= room:
            return text
        kept = ""
        for letter in text:
            if cells(kept + letter) >= room:
                break
            kept += letter
        return kept + "…"

    def wrapped(self, start: str, text: str, indent: int) -> list[str]:
        """Return a text behind `start`, broken between words, and indented, where it does not fit into a line."""
        begun = cells(PAINT.sub("", start))
        if begun + cells(text) <= self.width:
            return [start + text]
        from textwrap import wrap

        room = max(self.width, indent + _LEAST)
        before, below = "." * begun, " " * indent
        first, *others = wrap(
            text,
            room,
            initial_indent=before,
            subsequent_indent=below,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [start + first[begun:], *others]

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], words: Sequence[str]) -> list[str]:
        """Return a table's lines: a glyph, then the columns, each row's first wide column in its word's colour.

        Columns that are not fixed are cut to fit, then left out from the right; fixed ones never are.
        """
        texts = [[clean(cell) for cell in row] for row in rows]
        widths = [max(cells(c.title), *(cells(row[n]) for row in texts), 0) for n, c in enumerate(columns)]
        shown = self._fitted(columns, widths)
        lines = ["  " + self._row(columns, [c.title for c in columns], widths, shown).rstrip()]
        lines += [
            f"{self.glyph(word)} {self._row(columns, row, widths, shown, word)}".rstrip()
            for row, word in zip(texts, words, strict=True)
        ]
        lines[0] = self.paint(lines[0], "dim")
        return lines

    def _fitted(self, columns: Sequence[Column], widths: list[int]) -> list[int]:
        """Narrow columns in place, and return which are shown."""
        shown = list(range(len(columns)))
        while True:
            over = 2 + sum(widths[n] for n in shown) + 2 * (len(shown) - 1) - self.width
            if over <= 0:
                return shown
            soft = [n for n in shown if not columns[n].fixed and widths[n] > columns[n].least]
            if soft:
                widest = max(soft, key=lambda n: widths[n])
                widths[widest] = max(columns[widest].least, widths[widest] - over)
                continue
            loose = [n for n in shown if columns[n].spare] or [n for n in shown if not columns[n].fixed]
            if not loose:
                return shown
            shown.remove(loose[-1])

    def _row(
        self, columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], shown: Sequence[int], word: str = ""
    ) -> str:
        parts = []
        for n in shown:
            text = self.fit(row[n], widths[n])
            space = " " * (widths[n] - cells(text))
            painted = self.state(word, text) if word and columns[n].title in {"STATE", "ASKS", "OUTCOME"} else text
            parts.append(space + painted if columns[n].right else painted + space)
        return "  ".join(parts)


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def clean(text: str) -> str:
    """Return a text with its control characters written out, so that a stored value cannot drive a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
