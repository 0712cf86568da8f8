"""Facts and commands as lines: a name with its value in full, and what can be pasted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torpor.cli.screen import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torpor.cli.screen import Screen


def pasteable(screen: Screen, commands: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield commands, and behind each what it means, or below it: a comment to a shell, so that a whole line can be pasted."""
    width = max(len(command) for command, _ in commands)
    for n, (command, says) in enumerate(commands):
        start = "      " if n else "next: "
        beside = f"{start}{command:<{width}}{f'   # {says}' if says else ''}".rstrip()
        if len(beside) <= screen.width:
            yield beside
        else:
            yield f"{start}{command}"
            yield from [f"        # {says}"] if says else []


_INDENT = 11


def fact(screen: Screen, name: str, text: str) -> list[str]:
    """Return a line `  name     text`, and further ones if it is long."""
    start = f"  {name:<8} "
    return screen.wrapped(start, clean(text), max(len(start), _INDENT))


def field_lines(screen: Screen, name: str, value: Any) -> Iterator[str]:
    """Yield a value in full: a text between its words, the rest as JSON."""
    if isinstance(value, str):
        first, *others = value.splitlines() or [""]
        yield from fact(screen, name, first)
        for line in others:
            yield from screen.wrapped(" " * _INDENT, clean(line), _INDENT)
        return
    first, *others = json.dumps(value, ensure_ascii=False, indent=2).splitlines()
    yield f"  {name:<8} {clean(first)}"
    yield from (f"{'':<{_INDENT}}{clean(line)}" for line in others)
