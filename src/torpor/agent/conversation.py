"""What an agent's loop knows of the conversation and of the turn that is on, whoever asks: its models and its tools.

What is sent to a model is a window over the conversation (`agent.window`), the same wherever it is built. A tool call is known
by its place in the model's answer, an attempt of a model call by its number; neither depends on what a provider says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic_ai.messages import ModelRequest, ToolCallPart, UserPromptPart

from torpor.agent.remembering import stands
from torpor.agent.transcript import named
from torpor.agent.window import Window, tokens_of
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_ai import ModelResponse
    from pydantic_ai.messages import ModelMessage

    from torpor.agent.declared import Declared
    from torpor.sdk.guest import Guest

_MOST_COUNTED = 20_000


@dataclass
class Conversation:
    """A stretch of a conversation, in one worker."""

    declared: Declared
    window: Window
    """What is sent: smaller for the rest of a stretch once a provider said that it is too long."""
    before: int = 0
    """How many messages the conversation has that the loop does not hold; a request stands for them then."""
    pinned: Mapping[int, ModelMessage] = field(default_factory=dict)
    """Messages from before that are always sent, by number."""
    taken: set[str] = field(default_factory=set)
    """Ids of tool calls that the conversation has already."""
    positions: dict[str, int] = field(default_factory=dict)
    """Where each tool call stands in the answer of this turn, by its id."""
    asking: set[str] = field(default_factory=set)
    """Tools whose author says, in pydantic-ai's own words, that a person must consent."""
    interrupted: bool = False
    """Whether a person interrupted a tool of this turn: the model goes on when somebody has said what now."""
    woke: str = ""
    """What this turn waited for longest and got, in words."""
    slept_seconds: float = 0.0
    """For how long it waited for that."""
    asked_for_money: bool = False
    """Whether a reservation was made in this stretch."""
    unpriced: set[str] = field(default_factory=set)
    """Models, by their rate buckets, whose price nobody knew in this stretch."""
    guest: Guest = field(init=False)
    turn: int = field(init=False, default=0)
    _attempts: int = field(init=False, default=0)
    _summed: tuple[ModelMessage | None, ModelMessage | None, int, int] = field(init=False, default=(None, None, 0, 0))
    """The first and the newest message that were counted together, how many they were, and their tokens."""
    _counted: dict[int, tuple[ModelMessage, int]] = field(init=False, default_factory=dict)

    def enter(self, guest: Guest, turn: int) -> None:
        """Begin a turn."""
        self.guest, self.turn, self.interrupted, self._attempts = guest, turn, False, 0
        self.woke, self.slept_seconds = "", 0.0

    def waited(self, seconds: float, woke: str) -> None:
        """Take note of what was waited for; of several that were open together the longest wait is the run's sleep."""
        if seconds >= self.slept_seconds:
            self.woke, self.slept_seconds = woke, seconds

    # models

    def next_attempt(self) -> str:
        """Return what the next attempt of a model call is known by in this turn."""
        self._attempts += 1
        return str(self._attempts)

    def answered(self, response: ModelResponse) -> ModelResponse:
        """Take an answer: give its calls ids of their own, and remember their places."""
        response = named(response, self.turn, self.taken)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        self.positions = {call.tool_call_id: n for n, call in enumerate(calls)}
        return response

    def window_of(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """Return what is sent of the messages that the loop holds."""
        if not self.before and 2 * self._sum(messages) <= self.window.most_tokens:
            return messages  # as the window would say, which counts what is pinned twice
        held = messages[1:] if self.before and stands(messages[0]) else messages
        pinned = dict(self.pinned) if self.before else {0: messages[0]}
        for n in range(len(held) - 1, -1, -1):
            if speaks(held[n]):
                pinned[self.before + n] = held[n]
                break
        return self.window.of(reversed(held), self.before + len(held), pinned=pinned, tokens=self.tokens)

    def _sum(self, messages: list[ModelMessage]) -> int:
        """Return how many tokens the messages have; those that were there before are not looked at again."""
        first, last, count, tokens = self._summed
        if not (0 < count <= len(messages) and messages[0] is first and messages[count - 1] is last):
            count = tokens = 0
        tokens += sum(map(self.tokens, messages[count:]))
        self._summed = messages[0], messages[-1], len(messages), tokens
        return tokens

    def tokens(self, message: ModelMessage) -> int:
        """Count a message once: the loop holds the same objects from turn to turn."""
        known = self._counted.get(id(message))
        if known is None or known[0] is not message:
            if len(self._counted) > _MOST_COUNTED:
                self._counted.clear()
            known = self._counted[id(message)] = (message, tokens_of(message))
        return known[1]

    # tools

    def place_of(self, name: str, tool_call_id: str | None) -> str:
        """Return a tool call's place in the model's answer, which is what it is known by. Raises UsageError."""
        place = self.positions.get(tool_call_id or "")
        if place is None:
            raise UsageError(
                f"a call of {name} has the id {tool_call_id!r}, which the model's answer does not have",
                hint="a capability or hook changed it: let it leave ids alone",
            )
        return str(place)


def speaks(message: ModelMessage) -> bool:
    """Whether a message holds what a person said."""
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)
