"""The check that real providers make: each call of a tool has exactly one result, right after it, and no result is alone.

Sources of the rule: OpenAI answers 400 "An assistant message with 'tool_calls' must be followed by tool messages
responding to each 'tool_call_id'", Anthropic 400 "`tool_use` ids were found without `tool_result` blocks".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_ai.messages import ModelMessage


def unpaired(messages: Iterable[ModelMessage]) -> str | None:
    """Return in words what is wrong with the pairing of calls and results; None if nothing is.

    The calls of one answer are paired with the results that stand between it and the next answer.
    """
    called: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for number, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            if wrong := _wrong(called, answered):
                return f"{wrong} before messages[{number}]"
            called = Counter(part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart))
            answered = Counter()
            continue
        answered.update(
            part.tool_call_id
            for part in message.parts
            if isinstance(part, ToolReturnPart) or (part.part_kind == "retry-prompt" and part.tool_name is not None)
        )
    if wrong := _wrong(called, answered):
        return f"{wrong} at the end of the messages"
    return None


def _wrong(called: Counter[str], answered: Counter[str]) -> str | None:
    if "" in called:
        return "a tool call has an empty id"
    if twice := sorted(name for name, count in called.items() if count > 1):
        return f"the tool call ids {twice} stand twice in one answer"
    if missing := sorted(called.keys() - answered.keys()):
        return f"the tool calls {missing} have no result"
    if alone := sorted(answered.keys() - called.keys()):
        return f"the results {alone} have no call"
    if many := sorted(name for name, count in answered.items() if count > 1):
        return f"the tool calls {many} have more than one result"
    return None
