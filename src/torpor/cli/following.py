"""What can be done next about one run: commands that can be pasted, by what it waits for or how it ended."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from torpor.cli.screen import clean
from torpor.core.wait import WaitKind

if TYPE_CHECKING:
    from torpor.engine.queries.fleet import RunLine, WaitLine
    from torpor.engine.queries.show import RunShown

PEOPLE = frozenset(kind.word for kind in WaitKind if kind.for_person)
"""The kinds of waits that only a person can end, as a line names them."""
_WORKER = "torpor worker APP.py"


def steps_of(run: RunShown) -> list[tuple[str, str]]:
    """Return the commands that bring a run on, the likeliest first, each with what it means."""
    line = run.line
    people = [wait for wait in line.waits if wait.kind in PEOPLE]
    if people:
        return [(f"torpor inbox {people[0].wait}", "")]
    if line.state == "failed":
        newest = run.history.checkpoints[0].checkpoint
        return [
            (f"torpor retry {line.run}", "again from its last checkpoint"),
            (f"torpor fork {line.run} --at {newest}", "in a copy"),
        ]
    if line.state == "ready":
        return [(line.hint if line.hint.startswith(_WORKER) else _WORKER, "")]
    if line.shown == "asleep":
        children = run.family.children if run.family is not None else []
        open_children = [child.run for child in children if child.state not in {"completed", "failed", "cancelled"}]
        for wait in line.waits:
            step = _sends(line, wait, open_children)
            if step is not None:
                return [step]
    return [("torpor ps", "")]


def _sends(line: RunLine, wait: WaitLine, children: list[str]) -> tuple[str, str] | None:
    """Return what ends a wait from outside, if anything does."""
    name = clean(wait.title.removeprefix(f"{wait.kind} "))
    if wait.kind == "message":
        return f"torpor signal {line.run} {shlex.quote(name)} VALUE", ""
    if wait.kind == "event":
        return f"torpor signal --event {shlex.quote(name.partition(' ')[0])} JSON", ""
    if wait.kind == "callback":
        return f"torpor answer {wait.wait} JSON", ""
    if wait.kind in {"child", "children"} and children:
        return f"torpor show {children[0]}", ""
    return None
