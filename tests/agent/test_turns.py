"""Turns of an agent: wherever its worker dies, what the model and the tools said is there once, and nothing is done twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from tests.worker.labs import on
from torpor import App

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

SEEN: Counter[str] = Counter()
ANSWERS: list[list[Any]] = [
    [
        TextPart("let me see"),
        ToolCallPart("add", {"a": 1, "b": 2}, tool_call_id="c1"),
        ToolCallPart("add", {"a": 5, "b": 5}, tool_call_id="c2"),
    ],
    [
        ToolCallPart("deploy", {"env": "prod"}, tool_call_id="c3"),
        ToolCallPart("add", {"a": 7, "b": 0}, tool_call_id="c4"),
    ],
    [TextPart("all done")],
]


def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Answer as the conversation stands."""
    n = sum(isinstance(message, ModelResponse) for message in messages)
    SEEN[f"model {n}"] += 1
    return ModelResponse(parts=ANSWERS[n], usage=RequestUsage(input_tokens=10, output_tokens=5))


agent = Agent(FunctionModel(answer), instructions="Be brief.")


@agent.tool_plain
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    SEEN["add"] += 1
    return a + b


@agent.tool_plain(requires_approval=True)
async def deploy(env: str) -> str:
    """Deploy."""
    SEEN[f"deploy {env}"] += 1
    return f"deployed to {env}"


app = App()
support = app.agent("support", agent, safety={"add": "repeatable"})


async def people(lab: Lab, run: Run) -> None:
    """Approve what is asked; say of the deploy, if its worker died with it, what the world says."""
    await lab.settle()
    for _ in range(3):
        for wait in await lab.waits(run):
            if wait.kind == "approval":
                await lab.approve(wait, by="ada")
            elif SEEN["deploy prod"]:
                await lab.answer(wait, happened={"value": "deployed to prod"})
            else:
                await lab.answer(wait, again=True)
        await lab.settle()


@pytest.mark.slow
def test_a_run_survives_at_every_commit(store: Store, moment: Moment) -> None:
    """The model's answers are asked for once each unless its worker died before that was recorded; the deploy acts once."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(support, "hello", drive=people, before=SEEN.clear):
            assert await crash.result() == "all done", crash
            assert SEEN["deploy prod"] <= 1, crash

    SEEN.clear()
    on(store, moment, app, check)
