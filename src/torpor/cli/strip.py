"""A run's life as one line: awake is tall, asleep is low; what is long is folded, and the fold says how long it was."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torpor import clock
from torpor.demo.strip import Cell
from torpor.engine.queries.spoken import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.cli.screen import Screen
    from torpor.engine.queries.life import Stretch

_NAMED_SECONDS = 60
_PERSON = ("approve ", "settle ", "did ")


def strip(life: Sequence[Stretch], screen: Screen, room: int) -> str:
    """Return a life in at most `room` cells; the oldest parts are left out."""
    parts = [(_cell(stretch), _text(stretch, screen)) for stretch in life]
    shown: list[str] = []
    used = 0
    for cell, text in reversed(parts):
        if used + len(text) > room:
            shown.append("…" if screen.unicode else "~")
            break
        shown.append(screen.paint(text, "" if cell.style == "default" else cell.style))
        used += len(text)
    return "".join(reversed(shown))


def _cell(stretch: Stretch) -> Cell:
    if stretch.state == "awake":
        return Cell.AWAKE
    return Cell.PERSON if stretch.why.startswith(_PERSON) else Cell.ASLEEP


def _text(stretch: Stretch, screen: Screen) -> str:
    """Return a stretch's cells: more for a longer one, but by its logarithm."""
    sign = _cell(stretch).glyph(ascii_only=not screen.unicode)
    seconds = (stretch.ended_at - stretch.began_at) / clock.SECOND
    count = 1 + round(math.log2(1 + max(0.0, seconds) / 20)) if stretch.state == "asleep" else 1
    torn = Cell.TAKEOVER.glyph(ascii_only=not screen.unicode) if stretch.takeover else ""
    if stretch.state == "asleep" and seconds >= _NAMED_SECONDS:
        half = sign * max(1, count // 2)
        return f"{half}{duration(stretch.ended_at - stretch.began_at).replace(' ', '')}{half}"
    return torn + sign * min(count, 8)


def share(life: Sequence[Stretch]) -> str:
    """Return how much of a life was not asleep, `awake or ready 7m 14s of 4d 12h (0.11 %)`: no entry says when a claim came."""
    whole = life[-1].ended_at - life[0].began_at
    awake = sum(part.ended_at - part.began_at for part in life if part.state == "awake")
    percent = f" ({_percent(100 * awake / whole)} %)" if whole else ""
    return f"awake or ready {duration(awake)} of {duration(whole)}{percent}"


def _percent(percent: float) -> str:
    """Return two digits of a part of a hundred, without an exponent."""
    if percent >= 10:  # noqa: PLR2004 - two digits are whole now
        return f"{percent:.0f}"
    return f"{percent:.2g}" if percent >= 0.01 or not percent else "under 0.01"  # noqa: PLR2004 - said here
