"""What people see: a live block on a terminal, plain lines elsewhere, nothing with `--json`.

rich is loaded here and only here. Colours are the terminal's sixteen; a state is a glyph and a word before it is a
colour. Where the output is not UTF-8 the glyphs are ASCII.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from torpor import clock
from torpor.demo.strip import Cell, Strip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torpor.demo.crew import Member

LABEL_WIDTH = 12
STRIP_WIDTH = 60
_STATES = {
    "idle": ("○", "o", "default"),
    "awake": ("●", "*", "green"),
    "killed": ("✕", "x", "red"),
    "frozen": ("▒", ":", "red"),
    "thawed": ("○", "o", "default"),
    "fenced": ("\N{EN DASH}", "-", "default"),
    "ended": ("\N{EN DASH}", "-", "default"),
    "died": ("✕", "x", "red"),
}


class Screen(Protocol):
    """Where a demo shows itself."""

    def open(self, sentence: str, notes: Sequence[str], store: str) -> None:
        """Say what will be done."""

    def run(self, name: str, done: int, of: int, cell: Cell) -> None:
        """Say how the run stands."""

    def crew(self, members: Iterable[Member]) -> None:
        """Say how the workers stand."""

    def event(self, text: str, style: str = "") -> None:
        """Say what happened just now."""

    def proof(self, lines: Sequence[tuple[str, str]]) -> None:
        """Say what was proven: (text, style) each."""

    def close(self, lines: Sequence[str]) -> None:
        """Say the last words, and leave the terminal alone."""


class Silent:
    """Says nothing: standard output belongs to one JSON object."""

    def open(self, sentence: str, notes: Sequence[str], store: str) -> None:
        """Say nothing."""

    def run(self, name: str, done: int, of: int, cell: Cell) -> None:
        """Say nothing."""

    def crew(self, members: Iterable[Member]) -> None:
        """Say nothing."""

    def event(self, text: str, style: str = "") -> None:
        """Say nothing."""

    def proof(self, lines: Sequence[tuple[str, str]]) -> None:
        """Say nothing."""

    def close(self, lines: Sequence[str]) -> None:
        """Say nothing."""


class Drawn:
    """A block of text that grows. On a terminal it is drawn again and again, elsewhere each line is printed once."""

    def __init__(self) -> None:
        """Take standard output as it is now."""
        self.console = Console(highlight=False, soft_wrap=False)
        encoding = (sys.stdout.encoding or "ascii").lower()
        self._ascii = not encoding.startswith("utf")
        self._live: Live | None = None
        self._lines: list[Text] = []
        self._head: list[Text] = []
        self._crew = Text()
        self._run = ("", 0, 0)
        self._word = "not started"
        self._strip = Strip()
        self._began = clock.monotonic()
        self._store = ""

    @property
    def _moving(self) -> bool:
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    # what is said

    def open(self, sentence: str, notes: Sequence[str], store: str) -> None:
        """Say what will be done."""
        self._store = store
        self._add_head(Text(sentence))
        for note in notes:
            self._add_head(self._labelled("note", Text(note)))
        if self._moving:
            self._live = Live(console=self.console, auto_refresh=False, get_renderable=self._block)
            self._live.start(refresh=True)
        else:
            self._print(self._labelled("store", Text(store)))

    def run(self, name: str, done: int, of: int, cell: Cell) -> None:
        """Say how the run stands."""
        self._run = (name, done, of)
        self._word = cell.word
        self._strip.paint(clock.monotonic(), cell)
        self._refresh()

    def crew(self, members: Iterable[Member]) -> None:
        """Say how the workers stand."""
        text = Text()
        for member in members:
            glyph, plain, style = _STATES[member.state]
            text.append(f"{member.name} ").append(plain if self._ascii else glyph, style)
            text.append(f" {member.state:<9}")
        self._crew = text

    def event(self, text: str, style: str = "") -> None:
        """Say what happened just now."""
        seconds = clock.monotonic() - self._began
        stamp = f"{int(seconds // 60):02}:{seconds % 60:04.1f}"
        self._add(self._labelled(stamp, self._spelled(text, style)))

    def proof(self, lines: Sequence[tuple[str, str]]) -> None:
        """Say what was proven."""
        if self._live is None:
            self._print(self._run_line())
        for number, (text, style) in enumerate(lines):
            self._add(self._labelled("proof" if number == 0 else "", self._spelled(text, style)))

    def close(self, lines: Sequence[str]) -> None:
        """Say the last words."""
        if self._live is not None:
            self._live.vertical_overflow = "visible"
            self._live.stop()
            self._live = None
        for line in lines:
            self._print(self._spelled(line, ""))

    # how it is drawn

    def _add_head(self, line: Text) -> None:
        self._head.append(line)
        if not self._moving:
            self._print(line)

    def _add(self, line: Text) -> None:
        self._lines.append(line)
        if self._live is None:
            self._print(line)
        else:
            self._refresh()

    def _print(self, line: Text) -> None:
        self.console.print(line, soft_wrap=not self.console.is_terminal)

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.refresh()

    def _block(self) -> Group:
        crew = self._labelled("workers", Text.assemble(self._crew))
        room = self.console.width - crew.cell_len - 2
        store = Text(self._store)
        rows = [*self._head]
        if store.cell_len <= room:
            rows.append(Text.assemble(crew, "  ", store))
        else:
            rows += [crew, self._labelled("store", store)]
        rows += [self._run_line(), *self._lines]
        return Group(*rows)

    def _run_line(self) -> Text:
        name, done, of = self._run
        line = self._labelled("run", Text(name)).append(" ")
        tail = f"  {done}/{of} files  {self._word}"
        room = self.console.width - line.cell_len - len(tail) if self.console.is_terminal else STRIP_WIDTH
        for cell in self._strip.cells(max(8, min(STRIP_WIDTH, room))):
            line.append(cell.glyph(ascii_only=self._ascii), cell.style)
        return line.append(tail)

    def _labelled(self, label: str, text: Text) -> Text:
        """Return a line with its label in front; what does not fit goes on below, as far in as it began."""
        width = max(20, self.console.width - LABEL_WIDTH)
        wrapped = text.wrap(self.console, width) if self.console.is_terminal else [text]
        line = Text()
        for number, part in enumerate(wrapped):
            part.rstrip()
            line.append("\n" if number else "").append(
                f"  {label if number == 0 else '':<{LABEL_WIDTH - 2}}", "default"
            )
            line.append_text(part)
        return line

    def _spelled(self, text: str, style: str) -> Text:
        """Return text that the output can show: file names may hold anything."""
        if self._ascii:
            text = text.encode("ascii", "backslashreplace").decode()
        return Text(text, style)
