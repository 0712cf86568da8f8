"""A worker that is asked to stop while a model answers: what is paid for is waited for, and asked for once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.worker.labs import on
from torpor import App

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


class Thinking:
    """A model that answers when it is told to, and counts how often it is asked."""

    def __init__(self) -> None:
        """Be asked by nobody."""
        self.asked = 0
        self.begun, self.told = asyncio.Event(), asyncio.Event()

    async def answer(self, _messages: list[ModelMessage], _agent: AgentInfo) -> ModelResponse:
        """Think until the test says so."""
        self.asked += 1
        self.begun.set()
        await self.told.wait()
        return ModelResponse([TextPart("a thought")])


def test_an_answer_that_is_paid_for_is_waited_for(store: Store, moment: Moment) -> None:
    """The worker ends once it is on record, begins nothing new, and another one goes on from there (G3)."""
    app, thinking = App(), Thinking()
    thinker = app.agent("thinker", Agent(FunctionModel(thinking.answer)))

    async def check(lab: Lab) -> None:
        worker = await lab.worker()
        run = await lab.start(thinker, "think")
        await thinking.begun.wait()
        ends = asyncio.create_task(lab.drain())
        while not worker.stopping.asked:
            await asyncio.wait([ends], timeout=0)
        assert worker.unsettled == [run.name]
        thinking.told.set()
        await ends
        assert await lab.state(run) == "ready"
        assert "model@1" in [line.key for line in await lab.journal(run) if line.kind == "outcome"]
        assert await lab.result(run) == "a thought"
        assert thinking.asked == 1

    on(store, moment, app, check)


def test_it_is_not_waited_for_beyond_the_drain(store: Store, moment: Moment) -> None:
    """It is asked again then, as after a death."""
    app, thinking = App(), Thinking()
    thinker = app.agent("thinker", Agent(FunctionModel(thinking.answer)))

    async def check(lab: Lab) -> None:
        run = await lab.start(thinker, "think")
        await lab.worker()
        await thinking.begun.wait()
        await lab.drain()
        thinking.told.set()
        assert await lab.result(run) == "a thought"
        assert thinking.asked == 2

    on(store, moment, app, check, drain_seconds=0.0)
