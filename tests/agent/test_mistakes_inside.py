"""What torpor itself refuses inside a tool is a mistake in the code: no question of every run, and its hint is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agent.scripted import SEEN, agent_of, forget, results
from tests.worker.labs import on
from torpor import App, RunFailed, tool_context
from torpor.client import Client
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
INNER = Script("found", model="inner")
inner = agent_of(INNER, capabilities=[app.nested()], name="researcher")


async def research(topic: str) -> str:
    """Ask an agent that wants to be seen."""
    return str((await inner.run(topic)).output)


async def pay(topic: str) -> str:
    """Need a secret."""
    tool_context().secret("bank")
    SEEN[topic] += 1
    return "paid"


scripts = {tool: Script(call(tool, topic="x"), "done", model=tool) for tool in ("research", "pay")}
app.agent("nests", agent_of(scripts["research"], research))
app.agent("pays", agent_of(scripts["pay"], pay))
KEYED = Script(call("pay", topic="x"), "done", model="keyed")
app.agent("pays-keyed", agent_of(KEYED, pay), safety={"pay": "keyed"})


@pytest.mark.parametrize(
    ("name", "says", "hint"),
    [
        (
            "nests",
            "agent researcher runs inside the tool research, which is `once`",
            'safety={"research": "repeatable"}',
        ),
        ("pays", "there is no secret named 'bank'", "set TORPOR_SECRET_BANK"),
    ],
)
def test_a_once_tool_that_is_refused_fails_the_run(
    store: Store, moment: Moment, name: str, says: str, hint: str
) -> None:
    """No person is asked what happened, and the model is not told to go on without it."""
    forget(INNER, *scripts.values())

    async def check(lab: Lab) -> None:
        run = await lab.start(name, "go")
        await lab.settle()
        assert await lab.waits(run) == []
        with pytest.raises(RunFailed) as failed:
            await lab.result(run)
        assert says in failed.value.detail
        assert hint in failed.value.hint
        assert f"torpor retry {run.name}" in failed.value.hint

    on(store, moment, app, check)


def test_once_mended_a_retry_goes_on(store: Store, moment: Moment) -> None:
    """The call is made then, once; its model is not asked again."""
    forget(*scripts.values())
    secrets: dict[str, str] = {}

    async def check(lab: Lab) -> None:
        run = await lab.start("pays", "go")
        await lab.settle()
        assert await lab.state(run) == "failed"
        assert not SEEN
        secrets["bank"] = "a-long-secret"
        await Client(lab.store).retry(run.name, by="ada")
        assert await lab.result(run) == "done"
        assert SEEN == {"x": 1}
        assert results(scripts["pay"]) == [("pay", "paid", "success")]
        assert len(scripts["pay"].requests) == 2

    on(store, moment, app, check, secret=secrets.get)


def test_a_tool_that_may_be_called_again_tells_the_model_with_the_hint(store: Store, moment: Moment) -> None:
    """As of any tool that failed."""
    forget(KEYED)

    async def check(lab: Lab) -> None:
        run = await lab.start("pays-keyed", "go")
        assert await lab.result(run) == "done"
        ((_, told, outcome),) = results(KEYED)
        assert outcome == "failed"
        assert "there is no secret named 'bank'" in told
        assert "set TORPOR_SECRET_BANK for the worker" in told

    on(store, moment, app, check)
