"""What torpor itself refuses inside a tool is a mistake in the code: whoever is told of it reads the hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agent.scripted import SEEN, agent_of, forget, results
from tests.worker.labs import on
from torpor import App, tool_context
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
def test_a_once_tool_that_is_refused_is_a_question_with_the_hint(
    store: Store, moment: Moment, name: str, says: str, hint: str
) -> None:
    """It may have acted before, so a person is asked (G4); they read what is to be mended."""
    forget(INNER, *scripts.values())

    async def check(lab: Lab) -> None:
        run = await lab.start(name, "go")
        await lab.settle()
        (wait,) = await lab.waits(run)
        assert says in wait.show["why"]
        assert hint in wait.show["why"]

    on(store, moment, app, check)


def test_once_mended_it_is_called_again_if_a_person_says_so(store: Store, moment: Moment) -> None:
    """The call is made then, once; its model is not asked again."""
    forget(*scripts.values())
    secrets: dict[str, str] = {}

    async def check(lab: Lab) -> None:
        run = await lab.start("pays", "go")
        await lab.settle()
        assert not SEEN
        secrets["bank"] = "a-long-secret"
        (wait,) = await lab.waits(run)
        await lab.answer(wait, again=True)
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
