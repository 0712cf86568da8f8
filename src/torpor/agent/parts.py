"""What an agent puts into its run's stream: its answers, and its tool calls, a part when one begins and one when it has ended.

The parts of calls are short, because a stream is for looking on: the whole of it is in the conversation. An attempt that gives
something back emits both itself, so a call's end is written by the commit that records it (G11). What any other attempt said is
taken back with it: of a call that failed, that was interrupted or that a person settled, and of one that a child answers, the
turn says how it began and ended (`agent.calls`).
Secrets are struck before anything is cut: half of one would not be known any more (G15).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from torpor.core.stream import CALL, SAYS, TOOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torpor.sdk.steps import EffectContext

VALUE_LETTERS = 120
"""So much of an argument or a result is shown."""
MOST_ARGUMENTS = 12
"""So many arguments are shown."""


class Speech:
    """What a model says in one answer: who says it, before the first text of it."""

    def __init__(self, ctx: EffectContext, who: str) -> None:
        """Say nothing yet: an answer of tool calls alone says nothing."""
        self._ctx = ctx
        self._who = who
        self._begun = False

    def say(self, text: str) -> None:
        """Put a piece of the answer's text into the stream."""
        if text and not self._begun:
            self._begun = True
            self._ctx.emit({SAYS: self._who})
        if text:
            self._ctx.emit(text)


class Striking(Protocol):
    """Who knows the secrets that were resolved."""

    def struck(self, text: str) -> str:
        """Return a text without them."""


def began(by: Striking, tool: str, call: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part that a tool's call begins: `call` is its place in the run, equal in both parts."""
    shown = {name: short(by, value) for name, value in list(args.items())[:MOST_ARGUMENTS]}
    return {TOOL: tool, CALL: call, "args": shown}


def ended(by: Striking, tool: str, call: str, outcome: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part that says in a line what became of it (`outcomes.kept`): `gave`, `retry` or `failed`.

    None: it is a tool that asks, and has no end yet.
    """
    for word, key in (("retry", "retry"), ("failed", "failed"), ("gave", "value")):
        if key in outcome:
            return {TOOL: tool, CALL: call, word: short(by, outcome[key])}
    return None


def short(by: Striking, value: Any) -> Any:
    """Return a value as it is if it is short and plain, else a line with the beginning of it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else _text(value)
    line = " ".join(by.struck(text).encode("utf-8", "replace").decode().split())
    return line if len(line) <= VALUE_LETTERS else f"{line[: VALUE_LETTERS - 3]}..."


def _text(value: Any) -> str:
    from pydantic_core import to_jsonable_python

    try:
        return json.dumps(to_jsonable_python(value, fallback=repr), ensure_ascii=False)
    except Exception:  # noqa: BLE001 - whatever cannot be shown: the call itself must not fail of it
        return type(value).__name__
