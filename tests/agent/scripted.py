"""What tests of agents look at: what acted, and what a model was told."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart

from torpor.agent.state import AgentState
from torpor.agent.transcript import read
from torpor.blobs.rows import unpack
from torpor.store import values
from torpor.testing.showing import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.store.protocol import Store, Tx
    from torpor.testing import Script

SEEN: Counter[str] = Counter()
"""What acted, how often."""


def results(script: Script) -> list[tuple[str, Any, str]]:
    """Return what each tool gave back, as the last model call was told: its name, the content, the outcome."""
    return returns(_last(script))


def returns(messages: Sequence[ModelMessage]) -> list[tuple[str, Any, str]]:
    """Return what each tool gave back: its name, the content, the outcome."""
    return [
        (part.tool_name, part.content, part.outcome)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


def prompts(script: Script) -> list[str]:
    """Return what people said, as the last model call was told."""
    return [
        part.content if isinstance(part.content, str) else json.dumps(part.content, default=str)
        for message in _last(script)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


def asked(script: Script) -> list[int]:
    """Return which answers a script was asked for, in order: one that comes twice was asked for again."""
    return [request.number for request in script.requests]


def began_with(messages: Sequence[ModelMessage]) -> str:
    """Return what a conversation began with."""
    first = messages[0].parts[-1]
    assert isinstance(first, UserPromptPart)
    return str(first.content)


def _last(script: Script) -> Sequence[ModelMessage]:
    return script.requests[-1].messages


def agent_of(script: Script, *tools: Callable[..., Any] | Tool[Any], **more: Any) -> Agent[Any, Any]:
    """Return an agent whose model is a script."""
    return Agent(script, tools=list(tools), instructions="Be brief.", **more)


def forget(*scripts: Script) -> None:
    """Forget what was seen and asked."""
    SEEN.clear()
    for script in scripts:
        script.requests.clear()


def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


def kept_messages(store: Store, run: int, *, most: int = 1000) -> list[ModelMessage]:
    """Return the messages of a run as the store has them: those that are closed, oldest first, and the open request."""

    def found(tx: Tx) -> tuple[list[bytes], bytes]:
        rows = [whole(tx, unpack(body)) or b"" for body in tx.get_rows(run, "messages", after=0, limit=most)]
        return rows, whole(tx, tx.states([run])[run].body) or b""

    rows, body = store.transact_now(found)
    state = values.decode(body)
    tail = state.tail if isinstance(state, AgentState) else []
    return [read(one) for one in [*map(values.decode, rows), *tail]]
