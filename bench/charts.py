"""Bars as SVG, legible on a light page and on a dark one: the colours follow the reader's."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

_WIDTH, _LEFT, _RIGHT = 720, 190, 90
_BAR, _GAP, _GROUP, _TOP = 16, 6, 30, 44
_STYLE = """
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px } .group { font-weight: 600 } .value { fill: #59636e }
  .own { fill: #1a7f64 } .other { fill: #9aa4ae } .goal { stroke: #b35900; stroke-width: 2; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .value { fill: #9198a1 } .own { fill: #3fb68b } .other { fill: #57606a } .goal { stroke: #f0883e }
  }
"""


class Bar(NamedTuple):
    """One bar."""

    label: str
    value: float
    own: bool = False
    """Whether it is torpor's."""


class Group(NamedTuple):
    """Bars under a heading, with a goal to be reached, if there is one."""

    heading: str
    bars: list[Bar]
    goal: float | None = None


def spoken(value: float) -> str:
    """Return a number for people."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits say enough


def bars(title: str, groups: list[Group]) -> str:
    """Return a chart. All groups share one scale, from 0 to the longest bar or goal."""
    longest = max(
        [bar.value for group in groups for bar in group.bars] + [group.goal or 0 for group in groups] + [1e-9]
    )
    room = _WIDTH - _LEFT - _RIGHT
    y = _TOP
    drawn = [f'<text class="title" x="0" y="18">{escape(title)}</text>']
    for group in groups:
        drawn.append(f'<text class="group" x="0" y="{y + 4}">{escape(group.heading)}</text>')
        y += _GROUP - 14
        top = y
        for bar in group.bars:
            width = max(1.0, bar.value / longest * room)
            kind = "own" if bar.own else "other"
            drawn += [
                f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(bar.label)}</text>',
                f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2"/>',
                f'<text class="value" x="{_LEFT + width + 6:.1f}" y="{y + 12}">{spoken(bar.value)}</text>',
            ]
            y += _BAR + _GAP
        if group.goal is not None:
            x = _LEFT + group.goal / longest * room
            drawn.append(f'<line class="goal" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 3}" y2="{y - 3}"/>')
        y += 14
    inside = "\n  ".join(drawn)
    size = f'viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">\n'
        f"  <style>{_STYLE}  </style>\n  {inside}\n</svg>\n"
    )
