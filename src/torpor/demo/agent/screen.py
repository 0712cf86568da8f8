"""What people see of the agent's demo: a line for each thing that happens, and a table of what is proven. 80 columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from torpor import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.testing.showing import Line

WIDTH = 80
LABEL = 12


class Screen:
    """Lines on standard output; none at all if it is silent."""

    def __init__(self, *, silent: bool = False) -> None:
        """Begin."""
        self._silent = silent
        self._console = Console(highlight=False, soft_wrap=False)
        self._ascii = not (sys.stdout.encoding or "ascii").lower().startswith("utf")
        self._began = clock.monotonic()
        self._moving = ""

    @property
    def width(self) -> int:
        """How wide a line may be."""
        return min(WIDTH, self._console.width) if self._console.is_terminal else WIDTH

    def line(self, label: str, text: str, style: str = "") -> None:
        """Say something, with a label in front; what does not fit goes on below."""
        if self._silent:
            return
        self._clear()
        spelled = Text(self._spelled(text), style)
        for number, part in enumerate(spelled.wrap(self._console, self.width - LABEL)):
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

    def progress(self, text: str) -> None:
        """Say how far it is, in a line that the next one takes the place of; on a terminal only."""
        if self._silent or not self._console.is_terminal:
            return
        self._clear()
        self._moving = self._spelled(text)[: self.width]
        sys.stdout.write(self._moving)
        sys.stdout.flush()

    def table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Say a table: what, how much, and what it means, in green if it is as promised."""
        for number, (what, how_much, style) in enumerate(rows):
            head = f"  {'proof' if number == 0 else '':<{LABEL - 2}}"
            self.raw(f"{head}{what:<52}{how_much:>{self.width - LABEL - 52}}", style)

    def _clear(self) -> None:
        if self._moving:
            sys.stdout.write("\r" + " " * len(self._moving) + "\r")
            self._moving = ""

    def _spelled(self, text: str) -> str:
        return text.encode("ascii", "backslashreplace").decode() if self._ascii else text


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
