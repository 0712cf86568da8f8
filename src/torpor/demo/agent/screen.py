"""What people see of the agent's demo: a line for each thing that happens, and a table of what is proven. 80 columns."""

from __future__ import annotations

import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from torpor import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torpor.testing.showing import Line

WIDTH = 80
LABEL = 12
LEAST = 20
"""So much room is left for a text in any terminal."""
PROGRESS_SECONDS = 10.0
"""Where nothing can be drawn again, it is said so often how far it is."""


class Screen:
    """Lines on standard output; none at all if it is silent."""

    def __init__(self, *, silent: bool = False) -> None:
        """Begin."""
        self._silent = silent
        self._console = Console(highlight=False, soft_wrap=False)
        self._ascii = not (sys.stdout.encoding or "ascii").lower().startswith("utf")
        self._began = clock.monotonic()
        self._moving = ""
        self._told_at = self._began

    @property
    def width(self) -> int:
        """How wide a line may be."""
        return min(WIDTH, self._console.width) if self._console.is_terminal else WIDTH

    @property
    def _room(self) -> int:
        return max(self.width - LABEL, LEAST)

    def line(self, label: str, text: str, style: str = "") -> None:
        """Say something, with a label in front; what does not fit goes on below."""
        if self._silent:
            return
        self._clear()
        spelled = Text(self._spelled(text), style)
        for number, part in enumerate(spelled.wrap(self._console, self._room)):
            part.rstrip()
            head = f"  {label if number == 0 else '':<{LABEL - 2}}"
            self._console.print(Text(head).append_text(part), soft_wrap=True)

    def event(self, text: str, style: str = "") -> None:
        """Say what happened just now."""
        seconds = clock.monotonic() - self._began
        self.line(f"{int(seconds // 60):02}:{seconds % 60:04.1f}", text, style)

    def raw(self, text: str, style: str = "") -> None:
        """Say a line as it is."""
        if not self._silent:
            self._clear()
            self._console.print(Text(self._spelled(text), style), soft_wrap=True)

    def quoted(self, label: str, text: str, styles: Mapping[str, str]) -> None:
        """Say a text letter for letter, its lines broken at a space if one is near; `styles` by a line's first letter."""
        for number, whole in enumerate(text.splitlines()):
            room = self._room - 2
            head = f"  {label if number == 0 else '':<{LABEL - 2}}"
            for part, piece in enumerate(_pieces(whole, room)):
                more = "  " if part or not label else ""
                self.raw(f"{head}{more}{piece}".rstrip(), styles.get(whole[:1], ""))
                head = " " * LABEL

    def progress(self, text: str) -> None:
        """Say how far it is, in a line that the next one takes the place of; without a terminal now and then, on stderr."""
        if self._silent:
            return
        if not self._console.is_terminal:
            if clock.monotonic() - self._told_at >= PROGRESS_SECONDS:
                self._told_at = clock.monotonic()
                sys.stderr.write(f"{self._spelled(text).strip()}\n")
                sys.stderr.flush()
            return
        self._clear()
        self._moving = self._spelled(text)[: self.width]
        sys.stdout.write(self._moving)
        sys.stdout.flush()

    def table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Say a table: what, how much, and what it means, in green if it is as promised. What is long goes on below."""
        for number, (what, how_much, style) in enumerate(rows):
            head = f"  {'proof' if number == 0 else '':<{LABEL - 2}}"
            *above, last = wrap(what, max(self._room - len(how_much) - 1, 1))
            for part in above:
                self.raw(f"{head}{part}", style)
                head = " " * LABEL
            self.raw(f"{head}{last:<{self._room - len(how_much)}}{how_much}", style)

    def _clear(self) -> None:
        if self._moving:
            sys.stdout.write("\r" + " " * len(self._moving) + "\r")
            self._moving = ""

    def _spelled(self, text: str) -> str:
        return text.encode("ascii", "backslashreplace").decode() if self._ascii else text


def _pieces(line: str, room: int) -> Iterator[str]:
    """Yield a line in pieces of at most so many letters; none is left out, a piece may begin with the space."""
    while len(line) > room:
        space = line.rfind(" ", room // 2, room + 1)
        end = room if space < 0 else space
        yield line[:end]
        line = line[end:]
    yield line


class Journal:
    """Says each new entry of a journal that people understand."""

    def __init__(self, screen: Screen) -> None:
        """Have said nothing yet."""
        self._screen = screen
        self._said = 0

    def moved(self, journal: list[Line]) -> None:
        """Say what is new."""
        for line in journal:
            if line.seq > self._said:
                self._said = line.seq
                if line.kind == "outcome":
                    self._outcome(line)

    def _outcome(self, line: Line) -> None:
        name = line.key.partition("#")[0].partition("@")[0]
        if name == "model":
            for label, text in _answer(line.value):
                self._screen.event(f"{label}{_short(text, 200)}", "cyan" if not label else "")
            return
        value = line.value.get("value", line.value) if isinstance(line.value, dict) else line.value
        if not name:
            self._screen.event("; ".join(f"{key}: {said}" for key, said in value.items()), "green")
            return
        self._screen.event(f"{name}: {_short(str(value), 54)}")


def _answer(answer: dict[str, Any]) -> list[tuple[str, str]]:
    said = [("", part["content"]) for part in answer["parts"] if part["part_kind"] == "text"]
    calls = [part["tool_name"] for part in answer["parts"] if part["part_kind"] == "tool-call"]
    return [*said, *([("calls ", ", ".join(calls))] if calls else [])]


def _short(text: str, letters: int) -> str:
    one = " ".join(text.split())
    return one if len(one) <= letters else f"{one[: letters - 3]}..."
