"""What a stretch begins from: the end of the conversation, as long as the window may need it, and what is pinned.

Only that is read, so a stretch costs the same after fifty messages and after fifty thousand (G9). Messages are read in growing
portions until the window has had one more than fits, so a window built here is the one that a worker would send that has the
whole conversation in memory. What pydantic-ai gets begins with a request that stands for all that was left out; it is never
sent (`conversation.window_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

from torpor.agent.transcript import answered, read
from torpor.agent.window import prompts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_ai.messages import ToolCallPart

    from torpor.agent.state import AgentState
    from torpor.agent.window import Window

FIRST_READ = 64
MOST_READ = 4_096
"""So many messages are read at most, whatever the window has room for."""
_STANDS = {"torpor": "what was before"}


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an agent's loop begins with: `history` as pydantic-ai takes it, `before` messages that are not in it."""

    history: Sequence[ModelMessage]
    before: int = 0
    pinned: dict[int, ModelMessage] = field(default_factory=dict)


class _Taken:
    """Messages, newest first; how many of them somebody took, and whether they wanted more than there are."""

    def __init__(self, messages: Sequence[ModelMessage]) -> None:
        self._messages = messages
        self.count = 0
        self.wanted_more = False

    def __iter__(self) -> Iterator[ModelMessage]:
        for message in reversed(self._messages):
            self.count += 1
            yield message
        self.wanted_more = True


async def remember(state: AgentState, window: Window) -> Remembered:
    """Read the end of the conversation that is on. Called from the body, which reads rows."""
    closed = len(state.messages) - state.since
    spoke = max(0, state.said - state.since)
    tail = [read(one) for one in state.tail]
    pinned: dict[int, ModelMessage] = {}
    messages = tail
    most = FIRST_READ
    while True:
        rows = await state.messages.last(min(most, closed))
        known = len(messages) - len(tail)
        messages = [*map(read, rows[: len(rows) - known]), *messages]
        before = closed + len(tail) - len(messages)
        if before == 0:
            return Remembered(answered(messages, _unknown))
        pinned = pinned or {n: read(await state.messages.one(state.since + n)) for n in sorted({0, spoke})}
        taken = _Taken(messages)
        window.of(taken, closed + len(tail), pinned=pinned)
        if not taken.wanted_more or most >= MOST_READ:
            break
        most *= 2
    needed = messages[len(messages) - taken.count :]
    first = next((n for n, one in enumerate(needed) if isinstance(one, ModelResponse)), 0)
    needed, before = needed[first:], closed + len(tail) - len(needed) + first
    pinned = {number: one for number, one in pinned.items() if number < before}
    parts = [part for number in sorted(pinned) for part in prompts_of(pinned[number]).parts]
    front = ModelRequest(parts=parts, timestamp=needed[0].timestamp, metadata=dict(_STANDS))
    return Remembered([front, *answered(needed, _unknown)], before, pinned)


def stands(message: ModelMessage) -> bool:
    """Whether a message stands for what is not there."""
    return isinstance(message, ModelRequest) and message.metadata == _STANDS


def _unknown(call: ToolCallPart) -> str:
    return f"Nothing is known of what became of this call of {call.tool_name}."
