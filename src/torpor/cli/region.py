"""The lower end of a terminal, drawn again as what stands there changes: a text that grows, or that is taken back.

It is known line by line what was drawn, each line narrower than the terminal, so what can still be reached is changed in
place. Lines of others that were written between are known too: what stands above them is erased and they move up. What has
scrolled away, or was drawn in another width, stands as it is; whoever draws is told so.
"""

from __future__ import annotations

import re
import shutil
import threading
from typing import IO, TYPE_CHECKING, Any

from torpor.cli.screen import PAINT, cells, clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torpor.cli.screen import Screen

_WORDS = re.compile(r"\s+|\S+")
_TAB = "    "
_KNOWN_LINES = 1_000
"""So many lines are known of what stands above: no terminal is as high."""


class Region:
    """What stands below everything that was said for good."""

    def __init__(self, screen: Screen) -> None:
        """Begin with nothing, at the start of a line."""
        self._screen = screen
        self._above: list[str] = []
        """Lines of what is being drawn that were left where they are, because something else was written below them."""
        self._stood: list[tuple[int, str]] | None = []
        """What was written above what is drawn: lines with their places in it, and those of others, whose place is -1.

        None: it cannot be gone back to, because something else was written between whose lines are not known.
        """
        self._drawn: list[str] = []
        self._skipped = 0
        """So many lines of what is being drawn stand above, and the drawn ones follow them."""
        self._size = shutil.get_terminal_size()
        self._passing = False
        """Whether the last line that is drawn is not to be left there."""
        self._asks = False
        """Whether a question stands there, and the cursor behind it."""
        self._lock = threading.RLock()

    @property
    def width(self) -> int:
        """How many cells a line may have: the last column stays free, so that no terminal breaks a line by itself."""
        return max(shutil.get_terminal_size().columns - 1, 10)

    def draw(self, lines: Sequence[str], passing: str = "") -> bool:
        """Let these lines stand there in the place of what stood there, and below them one that is never left there.

        False: what stood there cannot be reached, nothing is drawn.
        """
        with self._lock:
            if not self._draw([*lines, passing] if passing else lines):
                return False
            self._passing = bool(passing)
            return True

    def _draw(self, lines: Sequence[str]) -> bool:
        with self._lock:
            skip = _equal(self._above, lines)
            if skip < len(self._above) and not self._last_grew(lines[skip : skip + 1], skip) and not self._erase(skip):
                return False
            old, new = self._drawn, lines[skip:]
            same = _equal(old, new)
            if not self._reaches(same, new):
                return False
            if same < max(len(old), len(new)):
                self.begin_line()
                self._screen.put(_change(old, new, same))
            self._drawn, self._skipped = list(new), skip
            self._see()
            return True

    def _see(self) -> None:
        """Take note of the terminal's size. Lines that were written in another one may have been broken since."""
        size = shutil.get_terminal_size()
        if size != self._size:
            self._stood = None if self._above or self._drawn else []
        self._size = size

    def _erase(self, place: int) -> bool:
        """Erase what stands there from this line on, and let the lines of others below it move up. False: out of reach."""
        if self._asks or self._stood is None or shutil.get_terminal_size() != self._size:
            return False
        first = next((n for n, (at, _) in enumerate(self._stood) if at >= place), len(self._stood))
        after = self._stood[first:]
        up = sum(_rows(line, self._size.columns) for _, line in after) + max(len(self._drawn) - 1, 0)
        if up >= self._size.lines:
            return False
        kept = [(at, line) for at, line in after if at < place]
        back = f"\x1b[{up}A" if up else ""
        self._screen.put(f"{back}\r\x1b[J" + "".join(f"{line}\n" for _, line in kept))
        self._stood = [*self._stood[:first], *kept]
        self._above, self._drawn, self._skipped = self._above[:place], [], place
        return True

    def _last_grew(self, line: Sequence[str], place: int) -> bool:
        """Whether only the last line that stands above has grown since, or lost a word to the next: it is drawn again."""
        last = self._above[-1]
        return (
            place == len(self._above) - 1
            and bool(line and line[0])
            and (line[0].startswith(last) or last.startswith(line[0]))
        )

    def _reaches(self, same: int, new: Sequence[str]) -> bool:
        """Whether the first line that changes can be gone back to."""
        first = min(same, max(len(new) - 1, 0))
        if same == len(self._drawn) or first >= len(self._drawn) - 1:
            return True
        return shutil.get_terminal_size() == self._size and len(self._drawn) - first <= self._size.lines

    def settle(self) -> None:
        """Leave what stands there, because something else is about to be written; the rest of it is drawn below that."""
        with self._lock:
            self.begin_line()
            if self._passing:
                self._passing = False
                self._draw([*self._above[: self._skipped], *self._drawn[:-1]])
            if self._drawn and self._drawn[-1]:
                self._screen.put("\n")
                self._stand(enumerate(self._drawn, self._skipped))
            else:  # the cursor stands in the last one, which is empty: what comes next is written there
                self._stand(enumerate(self._drawn[:-1], self._skipped))
            self._above = [*self._above[: self._skipped], *self._drawn]
            self._drawn, self._skipped = [], len(self._above)

    def _stand(self, lines: Iterable[tuple[int, str]]) -> None:
        """Take note of lines that were written above what is drawn next."""
        if self._stood is not None:
            self._stood += lines
            self._stood = self._stood if len(self._stood) <= _KNOWN_LINES else None

    def commit(self) -> None:
        """Leave what stands there for good; what is drawn next is something new."""
        with self._lock:
            self.settle()
            self._above, self._skipped, self._stood = [], 0, []

    def say(self, line: str) -> None:
        """Write a line for good below what stands there."""
        with self._lock:
            self.settle()
            self._stand_others(line)
            self._screen.say(line)

    def _stand_others(self, text: str) -> None:
        """Take note of lines of others. What would move the cursor takes nobody knows how many rows."""
        lines = text.split("\n")
        if not self._above:
            return  # nothing that stands above them is ever erased
        if all(PAINT.sub("", line).isprintable() for line in lines):
            self._stand((-1, line) for line in lines)
        else:
            self._stood = None

    def ask(self, question: str) -> None:
        """Write a question and leave the cursor behind it."""
        with self._lock:
            self.settle()
            self._stood = None if self._above else []  # what is typed behind it is not known here
            self._screen.put(question)
            self._asks = True

    def answered(self) -> None:
        """Take note that a person ended the line of the question."""
        self._asks = False

    def begin_line(self) -> None:
        """Let a question that stands there be, and begin a line below it."""
        with self._lock:
            if self._asks:
                self._screen.put("\n")
            self._asks = False

    def beside(self, stream: IO[str], lines: str) -> None:
        """Write whole lines to another stream that leads here."""
        with self._lock:
            self.settle()
            self._stand_others(lines.removesuffix("\n"))
            stream.write(lines)
            stream.flush()


class Beside:
    """A stream to the terminal of a region, for whoever does not know of the region: an author's `print`, a log line."""

    def __init__(self, stream: IO[str], region: Region) -> None:
        """Write to `stream`, whole lines, and not into the region."""
        self._stream = stream
        self._region = region
        self._begun = ""

    def write(self, text: str) -> int:
        """Write the lines that are whole now, below what the region has drawn so far."""
        whole, end, self._begun = (self._begun + text).rpartition("\n")
        if end:
            self._region.beside(self._stream, whole + end)
        return len(text)

    def flush(self) -> None:
        """Write what is there, as a line."""
        if self._begun:
            self.write("\n")
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        """Be the stream in everything else."""
        return getattr(self._stream, name)


def _rows(line: str, columns: int) -> int:
    """Return how many rows of a terminal a line takes, broken by the terminal itself."""
    rows, used = 1, 0
    for letter in PAINT.sub("", line):
        room = cells(letter)
        if used + room > columns:
            rows, used = rows + 1, 0
        used += room
    return rows


def _equal(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines at the beginning are equal."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _grows(old: Sequence[str], lines: Sequence[str], same: int) -> bool:
    """Whether only the end of the last line changes, and what follows it."""
    return same == len(old) - 1 and same < len(lines) and lines[same].startswith(old[same])


def _change(old: Sequence[str], lines: Sequence[str], same: int) -> str:
    """Return what turns the old lines into the new ones; the cursor stands behind the last one, then and now."""
    if not old or same == len(old):
        return ("\n" if old and lines[same:] else "") + "\n".join(lines[same:])
    if _grows(old, lines, same):
        return "\n".join([lines[same][len(old[same]) :], *lines[same + 1 :]])
    first = min(same, max(len(lines) - 1, 0))
    up = len(old) - 1 - first
    return (f"\x1b[{up}A" if up else "") + "\r\x1b[J" + "\n".join(lines[first:])


class Wrapped:
    """A text that grows, broken into lines between its words. Whole lines are broken once."""

    def __init__(self, width: int) -> None:
        """Begin empty, for lines of so many cells."""
        self.width = width
        self._whole: list[str] = []
        self._last = ""

    def add(self, text: str) -> None:
        """Take what follows."""
        *whole, last = (self._last + text.replace("\r\n", "\n")).split("\n")
        for line in whole:
            self._whole += wrapped(line, self.width)
        self._last = last

    @property
    def lines(self) -> list[str]:
        """The lines so far; what would drive a terminal is written out."""
        return [*self._whole, *wrapped(self._last, self.width)]


def wrapped(line: str, width: int) -> list[str]:
    """Return a line without a line break in it as lines of at most so many cells; spaces at a break are left out."""
    shown = clean(line.replace("\t", _TAB))
    if cells(shown) <= width:
        return [shown]
    found, now, used = [], "", 0
    for word in _WORDS.findall(shown):
        room = cells(word)
        if used + room > width and used:
            found.append(now.rstrip())
            now, used = "", 0
            if word.isspace():
                continue
        while room > width:
            piece = _fitting(word, width)
            found.append(piece)
            word = word[len(piece) :]  # noqa: PLW2901 - what is left of it
            room = cells(word)
        now, used = now + word, used + room
    return [*found, now] if now or not found else found


def _fitting(word: str, width: int) -> str:
    """Return as much of a word's beginning as fits, at least a letter."""
    end = 1
    while end < len(word) and cells(word[: end + 1]) <= width:
        end += 1
    return word[:end]
