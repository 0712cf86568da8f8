"""What a decision is bound to, in full: an approval's arguments as a table, and what a person makes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torpor import clock
from torpor.cli.fitting import words
from torpor.cli.region import wrapped
from torpor.cli.screen import cells, clean
from torpor.cli.spoken import moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torpor.cli.screen import Screen
    from torpor.engine.queries.people import InboxItem

_LABEL = 20
"""A longer name stands on a line of its own."""
_LEAST = 12


def asked_lines(screen: Screen, item: InboxItem, *, of: str = "") -> Iterator[str]:
    """Yield what an approval or a question asks, and everything that it is about; `of`: the run, if it is not known."""
    head = f"{screen.glyph('needs you')} {screen.state('needs you', item.asks)} "
    yield from screen.wrapped(head, clean(item.what), 2)
    content = item.content if isinstance(item.content, dict) else {}
    if of:
        yield from table(screen, {"of run": of})
    if "show" in content:
        shown = content["show"]
        yield from table(screen, shown if isinstance(shown, dict) else {"shows": shown})
    for choice in content.get("choices") or ():
        yield f"  - {clean(choice if isinstance(choice, str) else _json(choice))}"
    if content.get("schema") is not None and item.asks == "answer":
        yield from table(screen, {"fits": words(content["schema"]) or content["schema"]})
    if item.expires_at is not None:
        yield screen.paint(f"  expires {moment(item.expires_at, clock.wall())}", "dim")


def edited_lines(screen: Screen, now: Any, before: Any) -> Iterator[str]:
    """Yield what a person made of what an approval shows, with what was there beside what changed."""
    both = isinstance(now, dict) and isinstance(before, dict)
    yield from table(screen, now if both else {"shows": now}, before if both else {"shows": before})


def table(screen: Screen, rows: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield a line for each name and its value, nothing cut. With `before`, what was there stands beside what changed."""
    names = {name: clean(str(name)) for name in rows}
    label = min(max((cells(name) for name in names.values()), default=0), _LABEL)
    for name, value in rows.items():
        changed = before is not None and (name not in before or before[name] != value)
        other = changed and before is not None and not isinstance(before.get(name, ""), str)
        shown = _json(value) if other and isinstance(value, str) else _text(value)  # "5" in the place of a number
        yield from _row(screen, names[name], shown, label, changed=changed)
        if changed and before is not None and name in before:
            was = [screen.paint(line, "dim") for line in _row(screen, "", f"was {_text(before[name])}", label)]
            yield from was
    for name in before or ():
        if name not in rows:
            yield from _row(screen, clean(str(name)), "left out", label, changed=True)


def _row(screen: Screen, name: str, text: str, label: int, *, changed: bool = False) -> Iterator[str]:
    """Yield a name and its text, broken between words, further lines below its first."""
    indent = 2 + label + 2
    room = max(screen.width - 1 - indent, _LEAST)
    lines = [piece for line in text.split("\n") for piece in wrapped(line, room)]
    start = f"  {name}{' ' * max(label - cells(name), 0)}  "
    if cells(name) > label or screen.width - 1 - indent < _LEAST:
        yield from (f"  {piece}" for piece in wrapped(name, max(screen.width - 3, _LEAST)) if name)
        start = " " * min(indent, 4)
        indent = len(start)
        lines = [piece for line in text.split("\n") for piece in wrapped(line, max(screen.width - 1 - indent, _LEAST))]
    for n, line in enumerate(lines):
        yield (start if n == 0 else " " * indent) + (screen.paint(line, "bold") if changed else line)


def _text(value: Any) -> str:
    """Return a value as people read it: a text as it is, the rest as JSON, on several lines if it is long."""
    if isinstance(value, str):
        return value if value.strip() else _json(value)
    flat = _json(value)
    return flat if len(flat) <= 60 else json.dumps(value, ensure_ascii=False, indent=2)  # noqa: PLR2004 - a line


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
