"""Agents whose model says what the test wrote, and which refuse a conversation that a real provider would refuse."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

Answer = str | Exception | Sequence[str | ToolCallPart]
SEEN: Counter[str] = Counter()
"""What acted, how often."""
ASKED: list[list[ModelMessage]] = []
"""What each model call was asked."""


def call(name: str, call_id: str = "", /, **args: Any) -> ToolCallPart:
    """Return a call of a tool, under a provider's id if one is given."""
    return ToolCallPart(name, args, tool_call_id=call_id) if call_id else ToolCallPart(name, args)


def says(*answers: Answer) -> FunctionModel:
    """Return a model that gives the n-th answer when it has given n before."""

    def answer(messages: list[ModelMessage], _asked: AgentInfo) -> ModelResponse:
        paired(messages)
        n = sum(isinstance(message, ModelResponse) for message in messages)
        ASKED.append(messages)
        SEEN[f"model {n}"] += 1
        said = answers[n]
        if isinstance(said, Exception):
            raise said
        parts = [part if isinstance(part, ToolCallPart) else TextPart(part) for part in _listed(said)]
        return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=10, output_tokens=5))

    return FunctionModel(answer)


def _listed(said: str | Sequence[str | ToolCallPart]) -> Sequence[str | ToolCallPart]:
    return [said] if isinstance(said, str) else said


def paired(messages: list[ModelMessage]) -> None:
    """Refuse what a strict provider refuses: after an answer with calls come exactly their results, in whatever order."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            assert not open_calls, f"no result for {open_calls}"
            open_calls = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
            assert len(set(open_calls)) == len(open_calls), open_calls
            assert all(open_calls), open_calls
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                assert part.tool_call_id in open_calls, f"a result without a call: {part}"
                open_calls.remove(part.tool_call_id)
    assert not open_calls, f"no result for {open_calls}"


def results(messages: list[ModelMessage]) -> list[tuple[str, Any, str]]:
    """Return what each tool of a conversation gave back: its name, the content, the outcome."""
    return [
        (part.tool_name, part.content, part.outcome)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


def prompts(messages: list[ModelMessage]) -> list[str]:
    """Return what people said in a conversation."""
    return [
        part.content if isinstance(part.content, str) else json.dumps(part.content, default=str)
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


def forget() -> None:
    """Forget what was seen and asked."""
    SEEN.clear()
    ASKED.clear()


def agent_of(*answers: Answer, tools: Sequence[Callable[..., Any]] = (), **more: Any) -> Agent[Any, Any]:
    """Return an agent with such a model."""
    return Agent(says(*answers), tools=list(tools), instructions="Be brief.", **more)
