"""An agent inside a tool of another one: recorded call by call, asked about, and asleep with the run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent

from tests.agent.scripted import SEEN, agent_of, asked, began_with, forget, prompts, results
from tests.worker.labs import on
from torpor import App
from torpor.client import Client
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()


async def publish(title: str) -> str:
    """Publish."""
    SEEN[f"publish {title}"] += 1
    return f"published {title}"


RESEARCH = Script(lambda messages, _agent: call("publish", title=began_with(messages)), "it is out", model="research")
EDIT = Script([call("research", topic="roofs"), call("look", where="attic")], "all is said", model="edit")
TWICE = Script(call("both", first="roofs", second="walls"), "all is said", model="twice")
DEEP = Script(call("relay", topic="roofs"), "all is said", model="deep")

researcher: Agent[Any, Any] = agent_of(
    RESEARCH, publish, name="researcher", capabilities=[app.nested(approve={"publish": True})]
)
blind: Agent[Any, Any] = Agent(RESEARCH, name="blind")


@blind.tool_plain(name="publish", requires_approval=True)
async def publish_blindly(title: str) -> str:
    """Publish, if a person agrees."""
    return await publish(title)


async def research(topic: str) -> str:
    """Ask the researcher, as pydantic-ai delegates."""
    SEEN["research"] += 1
    return str((await researcher.run(topic)).output)


async def look(where: str) -> str:
    """Look somewhere."""
    SEEN[f"look {where}"] += 1
    return f"nothing in {where}"


async def both(first: str, second: str) -> list[str]:
    """Ask the researcher about two things at once."""
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(researcher.run(topic)) for topic in (first, second)]
    return [one.result().output for one in asking]


MIDDLE = Script(call("research", topic="tiles"), "relayed", model="middle")
middle: Agent[Any, Any] = agent_of(
    MIDDLE, research, name="middle", capabilities=[app.nested(safety={"research": "repeatable"})]
)


async def relay(topic: str) -> str:
    """Ask somebody who asks the researcher."""
    return str((await middle.run(topic)).output)


async def research_blindly(topic: str) -> str:
    """Ask an agent that nobody sees."""
    return str((await blind.run(topic)).output)


def research_in_a_thread(topic: str) -> str:
    """Ask from a thread."""
    return str(asyncio.run(researcher.run(topic)).output)


editor = app.agent("editor", agent_of(EDIT, research, look), safety={"research": "repeatable", "look": "repeatable"})
twice = app.agent("twice", agent_of(TWICE, both), safety={"both": "repeatable"})
deep = app.agent("deep", agent_of(DEEP, relay), safety={"relay": "repeatable"})
once = app.agent("once", agent_of(EDIT, research, look), safety={"look": "repeatable"})
BLIND = Script(call("research_blindly", topic="roofs"), "nothing is said", model="blind")
THREAD = Script(call("research_in_a_thread", topic="roofs"), "nothing is said", model="thread")
unseen = app.agent("unseen", agent_of(BLIND, research_blindly), safety={"research_blindly": "repeatable"})
threaded = app.agent("threaded", agent_of(THREAD, research_in_a_thread), safety={"research_in_a_thread": "repeatable"})


async def people(lab: Lab, run: Run) -> None:
    """Approve what is asked; say of a call whose worker died with it what the world says."""
    await lab.settle()
    for _ in range(3):
        for wait in await lab.waits(run):
            if wait.kind == "approval":
                await lab.approve(wait, by="ada")
            elif SEEN["publish roofs"]:
                await lab.answer(wait, happened="published roofs")
            else:
                await lab.answer(wait, again=True)
        await lab.settle()


@pytest.mark.slow
def test_an_agent_inside_a_tool_survives_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Its approval goes back to its call, it publishes once, and no model is asked again for what is on record."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(editor, "an issue", drive=people, before=lambda: forget(EDIT, RESEARCH)):
            assert await crash.result() == "all is said", crash
            assert SEEN["publish roofs"] == 1, crash
            assert results(EDIT) == [
                ("research", "it is out", "success"),
                ("look", "nothing in attic", "success"),
            ], crash
            assert results(RESEARCH) == [("publish", "published roofs", "success")], crash
            again = sum(len(asked(script)) - len(set(asked(script))) for script in (EDIT, RESEARCH))
            assert again <= (crash.place is not Place.AFTER), (crash, asked(EDIT), asked(RESEARCH))

    on(store, moment, app, check)


def test_it_sleeps_with_the_run(store: Store, moment: Moment) -> None:
    """While a person thinks no worker holds the run; denied, the agent inside is told."""
    forget(EDIT, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(editor, "an issue")
        await lab.settle()
        assert await lab.state(run) == "waiting"
        (wait,) = await lab.waits(run)
        assert (wait.title, wait.show["show"]) == ("publish?", {"title": "roofs"})
        await lab.kill()
        await lab.deny(wait, by="bob", note="not yet")
        assert await lab.result(run) == "all is said"
        assert results(RESEARCH) == [
            ("publish", "bob denied this call of publish: not yet. It was not made.", "denied")
        ]
        keys = [line.key for line in await lab.journal(run) if line.kind == "outcome"]
        assert {"model@0/researcher.1/1", "model@0/researcher.1/2", "research@0 done"} <= set(keys)

    on(store, moment, app, check)


def test_two_at_once_get_what_is_theirs(store: Store, moment: Moment) -> None:
    """One is approved, the other denied; each call gets its own decision."""
    forget(TWICE, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(twice, "an issue")
        await lab.settle()
        waits = {wait.show["show"]["title"]: wait for wait in await lab.waits(run)}
        await lab.approve(waits["walls"], by="ada")
        await lab.settle()
        await lab.deny(waits["roofs"], by="ada")
        assert await lab.result(run) == "all is said"
        assert (SEEN["publish walls"], SEEN["publish roofs"]) == (1, 0)
        assert results(TWICE) == [("both", ["it is out", "it is out"], "success")]

    on(store, moment, app, check)


def test_an_agent_inside_an_agent_inside_a_tool(store: Store, moment: Moment) -> None:
    """However deep, what is asked reaches a person."""
    forget(DEEP, MIDDLE, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(deep, "an issue")
        await lab.settle()
        await lab.approve("publish?")
        assert await lab.result(run) == "all is said"
        assert SEEN["publish tiles"] == 1
        assert len(asked(MIDDLE)) == 2

    on(store, moment, app, check)


def test_somebody_breaks_in(store: Store, moment: Moment) -> None:
    """The agent outside goes on when they have said what now."""
    forget(EDIT, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(editor, "an issue")
        await lab.settle()
        await Client(lab.store).interrupt(run.name, by="ada", reason="enough")
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run)] == ["message"]
        await lab.signal(run, "message", "come in")
        assert await lab.result(run) == "all is said"
        assert results(RESEARCH) == [("publish", "A person interrupted this call: enough.", "failed")]
        assert prompts(EDIT) == ["an issue", "come in"]

    on(store, moment, app, check)


def test_a_tool_that_is_called_once_says_what_to_do(store: Store, moment: Moment) -> None:
    """It was not declared repeatable: a person is asked, and reads why and what to write."""
    forget(EDIT, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(once, "an issue")
        await lab.settle()
        (item,) = (await Client(lab.store).inbox()).items
        assert "agent researcher runs inside the tool research, which is `once`" in item.content["why"]
        assert 'safety={"research": "repeatable"}' in item.content["why"]
        await lab.answer(run, fail="not so")
        assert await lab.result(run) == "all is said"

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (unseen, "an agent inside the tool research_blindly needs a person's consent, and nobody sees it there"),
        (threaded, "agent researcher runs inside the tool research_in_a_thread, in a thread"),
    ],
)
def test_what_cannot_be_recorded_says_so(store: Store, moment: Moment, which: Any, said: str) -> None:
    """The model is told; nothing was published."""
    forget(BLIND, THREAD, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(which, "an issue")
        assert await lab.result(run) == "nothing is said"
        script = BLIND if which is unseen else THREAD
        ((_, told, outcome),) = results(script)
        assert outcome == "failed"
        assert said in told
        assert not SEEN["publish roofs"]

    on(store, moment, app, check)


def test_without_torpor_it_changes_nothing() -> None:
    """The same agents in a plain `run`."""
    forget(EDIT, RESEARCH)
    assert asyncio.run(agent_of(EDIT, research, look).run("an issue")).output == "all is said"
    assert SEEN["publish roofs"] == 1
