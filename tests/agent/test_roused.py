"""An agent whose machine sleeps inside a call: its model and its tools are asked again, and what was bought stays paid."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.scripted import agent_of, asked
from tests.worker.labs import asleep, on
from torpor import App
from torpor.client import Client
from torpor.testing import Script, call

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


@pytest.mark.parametrize("model", ["script", "openai:gpt-5-mini"])
def test_its_model_is_asked_again(store: Store, moment: Moment, model: str) -> None:
    """Whether its answers have a price or not."""
    machines: list[Any] = []

    def answers(_messages: list[ModelMessage], _asked: AgentInfo) -> str:
        if machines:
            asleep(machines.pop())
            raise ConnectionResetError("of another life")
        return "done"

    script = Script(answers, model=model)
    app = App()
    agent = app.agent("sleepy", agent_of(script))

    async def check(lab: Lab) -> None:
        machines.append(await lab.worker())
        run = await lab.start(agent, "hello")
        await lab.settle()
        lab.advance(60)
        assert await lab.result(run) == "done"
        assert asked(script) == [0, 0]
        own = next(one for one in await Client(lab.store).budgets(run.name) if one.of == run.name)
        assert own.reserved == 0
        assert (own.spent > Decimal(0)) is (model != "script")

    on(store, moment, app, check)


def test_its_repeatable_tool_is_called_again(store: Store, moment: Moment) -> None:
    """At once; the model hears of nothing."""
    machines: list[Any] = []
    calls: list[int] = []

    async def reads(n: int) -> str:
        """Read something."""
        calls.append(n)
        if machines:
            asleep(machines.pop())
            raise ConnectionResetError("of another life")
        return "read"

    script = Script(call("reads", n=1), "done")
    app = App()
    agent = app.agent("sleepy", agent_of(script, reads), safety={"reads": "repeatable"})

    async def check(lab: Lab) -> None:
        machines.append(await lab.worker())
        run = await lab.start(agent, "hello")
        assert await lab.result(run) == "done"
        assert calls == [1, 1]
        assert asked(script) == [0, 1]

    on(store, moment, app, check)
