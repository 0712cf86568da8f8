"""The watchdog: an agent that does the same again and again is stopped before it has spent everything on it.

It looks at turns, one model answer with its tool calls and their results, and knows three kinds of loop:

* the same calls with the same answers, turn after turn;
* two or three such turns in rotation (A, B, A, B, ...);
* one tool that fails with the same error again and again, whatever it is called with and whatever else happens meanwhile.

Anything new in an answer is progress: a poll whose answers change is no loop, however often it asks. How long a call takes
plays no part. What is remembered is a few digests, kept in the agent's state, so a change of worker or a shorter window
changes no count. A finding clears the memory: if a person lets the run go on, it is told again after as many turns.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pydantic_ai.messages import ERROR_OUTCOMES, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_core import from_json, to_json

from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_ai.messages import ModelMessage

LONGEST_ROTATION = 3
_LEAST = 2
_DIGEST_BYTES = 6
_MOST_NAMES = 3
_MOST_ERRORS = 16


class Seen(NamedTuple):
    """A call and what became of it. `outcome` is the text that the model was told."""

    name: str
    args: str
    outcome: str
    failed: bool


@dataclass
class Recent:
    """What is remembered, a few hundred bytes: part of the agent's state."""

    turns: list[str] = field(default_factory=list)
    """The newest turns, oldest first: a digest of the calls and answers, and the tools' names."""
    errors: dict[str, int] = field(default_factory=dict)
    """How many turns in a row a tool has failed with the same error, by the error's digest and the tool's name."""


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Finds loops. `limit` is how often the same must come."""

    limit: int

    def __post_init__(self) -> None:
        """Refuse a limit at which the first call would be a loop."""
        limit: object = self.limit
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise UsageError(f"a watchdog's limit is {limit!r}", hint=f"a whole number, {_LEAST} or more")
        if self.limit < _LEAST:
            message = f"a watchdog with a limit of {self.limit} would stop an agent that repeats nothing"
            raise UsageError(message, hint=f"a limit of {_LEAST} or more")

    def look(self, recent: Recent, calls: Sequence[Seen]) -> str:
        """Take a turn's calls into `recent`; return what is wrong, in words for a person, or nothing.

        A turn without calls ends what was going on: the agent has said something to somebody.
        """
        if not calls:
            recent.turns.clear()
            recent.errors.clear()
            return ""
        reason = self._failing(recent, calls) or self._rotating(recent, calls)
        if reason:
            recent.turns.clear()
            recent.errors.clear()
        return reason

    def _failing(self, recent: Recent, calls: Sequence[Seen]) -> str:
        failed = {_error(call): call for call in calls if call.failed}
        going_well = {call.name for call in calls if not call.failed}
        called = {call.name for call in calls}
        for error in list(recent.errors):
            if error not in failed and error.partition(" ")[2] in called:
                del recent.errors[error]
        for error, call in failed.items():
            times = recent.errors.pop(error, 0)
            if call.name in going_well:
                continue
            recent.errors[error] = times + 1
            if times + 1 >= self.limit:
                return f"{call.name}: failed {times + 1} times in a row with the same error: {_short(call.outcome)}"
        for error in list(recent.errors)[:-_MOST_ERRORS]:
            del recent.errors[error]
        return ""

    def _rotating(self, recent: Recent, calls: Sequence[Seen]) -> str:
        names = sorted({call.name for call in calls})
        shown = ", ".join(names[:_MOST_NAMES]) + (" and others" if len(names) > _MOST_NAMES else "")
        recent.turns.append(f"{_digest(part for call in calls for part in call[:3])} {shown}")
        del recent.turns[: -self.limit * LONGEST_ROTATION]
        for period in range(1, LONGEST_ROTATION + 1):
            newest = recent.turns[-self.limit * period :]
            if len(newest) == self.limit * period and newest[period:] == newest[:-period]:
                return self._told([turn.partition(" ")[2] for turn in newest[:period]])
        return ""

    def _told(self, names: list[str]) -> str:
        if len(names) == 1:
            return f"{names[0]}: called {self.limit} times with equal arguments, and the answer was the same each time"
        return f"{', then '.join(names)}: called in turns {self.limit} times with equal arguments and the same answers"


def seen(turn: Iterable[ModelMessage]) -> list[Seen]:
    """Return the calls of a turn's messages with what became of them, in order. A call without a result is none yet."""
    calls: dict[str, ToolCallPart] = {}
    found: dict[str, Seen] = {}
    for message in turn:
        if isinstance(message, ModelResponse):
            calls.update({part.tool_call_id: part for part in message.parts if isinstance(part, ToolCallPart)})
        elif isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, ToolReturnPart) and (call := calls.get(part.tool_call_id)):
                    failed = part.outcome in ERROR_OUTCOMES
                    found[part.tool_call_id] = Seen(call.tool_name, _args(call), _outcome(part), failed)
    return [found[name] for name in calls if name in found]


def _args(call: ToolCallPart) -> str:
    """Return arguments so that equal ones are equal text, whatever the order or spaces in which a model wrote them."""
    args = call.args
    if isinstance(args, str):
        try:
            args = from_json(args)
        except ValueError:
            return str(args)
    return _ordered(args)


def _ordered(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_ordered(key)}:{_ordered(value[key])}" for key in sorted(value, key=str)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_ordered, value)) + "]"
    if isinstance(value, str):
        return repr(value)
    return to_json(value, fallback=repr, inf_nan_mode="constants").decode()


def _outcome(part: ToolReturnPart) -> str:
    """Return what the model was told: the text, and which files."""
    return "\n".join([part.model_response_str(wrap_if_error=False), *(file.identifier for file in part.files)])


def _error(call: Seen) -> str:
    return f"{_digest([call.outcome])} {call.name}"


def _digest(texts: Iterable[str]) -> str:
    """Return a short digest; each text is measured, so that `ab, c` is not `a, bc`."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.hexdigest()


def _short(text: str) -> str:
    """Return the beginning of an error in one line."""
    line = " ".join(text.split())
    most = 120
    return line if len(line) <= most else f"{line[:most]}..."
