"""Agents as children of agents and of flows: started once, asking people for themselves, ended with whoever asked them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from tests.agent.scripted import SEEN, agent_of, asked, began_with, forget, prompts, results
from tests.worker.labs import on
from torpor import App, Context, UsageError
from torpor.client import Client
from torpor.core.run import State
from torpor.testing import Run, Script, call

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


class Report(BaseModel):
    """What the researcher gives back."""

    words: int


async def publish(title: str) -> str:
    """Publish."""
    SEEN[f"publish {title}"] += 1
    return f"published {title}"


def nobody() -> None:
    """Make no dependencies."""
    raise ValueError("nobody knows the way")


async def look(where: str) -> str:
    """Look somewhere."""
    SEEN[f"look {where}"] += 1
    return f"nothing in {where}"


RESEARCH = Script(call("publish", title="roofs"), call("final_result", words=12), model="research")
EDIT = Script(
    [call("researcher", prompt="write about roofs"), call("look", where="attic")], "all is said", model="edit"
)
PAIR = Script([call("ask", prompt="roofs"), call("ask", prompt="walls")], "both are said", model="pair")
SHORT = Script(lambda messages, _agent: f"about {began_with(messages)}", model="short")
LOST = Script(model="lost")
ASKS_LOST = Script(call("lost", prompt="anybody?"), "nobody is there", model="asks-lost")

app = App()
researcher = app.agent(
    "researcher",
    agent_of(RESEARCH, publish, output_type=Report, description="Writes about a subject."),
    approve={"publish": True},
)
editor = app.agent(
    "editor",
    agent_of(EDIT, app.delegate(researcher), look),
    safety={"look": "repeatable"},
)
careful = app.agent("careful", agent_of(EDIT, app.delegate(researcher, approve=True), look), safety={"look": "once"})
short = app.agent("short", agent_of(SHORT))
pair = app.agent("pair", agent_of(PAIR, app.delegate(short, name="ask", description="Ask about a subject.")))
lost = app.agent("lost", agent_of(LOST), deps=nobody)
asks_lost = app.agent("asks-lost", agent_of(ASKS_LOST, app.delegate("lost")))


@app.flow
async def press(ctx: Context, subject: str) -> int:
    """Have an agent write, as a flow does: what it gives back is what its program says."""
    report: Report = await ctx.child(researcher, subject)
    return report.words + 1


async def family(lab: Lab, run: Run) -> list[Run]:
    """Return a run's children, oldest first."""
    rows = await lab.store.transact(lambda tx: tx.children(run.number, limit=100))
    return [Run(row.id, f"child {row.id}") for row in sorted(rows, key=lambda row: row.id)]


def told(script: Script) -> Any:
    """Return what tools gave back as a model reads it."""
    return to_jsonable_python(results(script))


async def people(lab: Lab, run: Run) -> None:
    """Approve what is asked by anybody in the family; say of a call whose worker died with it what the world says."""
    await lab.settle()
    for _ in range(4):
        for one in [run, *await family(lab, run)]:
            for wait in await lab.waits(one):
                if wait.kind == "approval":
                    await lab.approve(wait, by="ada")
                elif wait.kind == "attention" and SEEN["publish roofs"]:
                    await lab.answer(wait, happened="published roofs")
                elif wait.kind == "attention":
                    await lab.answer(wait, again=True)
        await lab.settle()


@pytest.mark.slow
def test_a_child_is_started_once_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Its approval is answered while its parent sleeps; the parent goes on with its output, and nothing is done twice."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(editor, "an issue", drive=people, before=lambda: forget(EDIT, RESEARCH)):
            assert await crash.result() == "all is said", crash
            (child,) = await family(lab, crash.run)
            assert await lab.result(child) == Report(words=12), crash
            assert SEEN["publish roofs"] == 1, crash
            assert told(EDIT) == [
                ["researcher", {"words": 12}, "success"],
                ["look", "nothing in attic", "success"],
            ], crash
            assert prompts(RESEARCH) == ["write about roofs"], crash
            for script in (EDIT, RESEARCH):  # parent and child: the worker may die in a call of either
                assert len(asked(script)) - len(set(asked(script))) <= bool(crash.what), (crash, asked(script))

    on(store, moment, app, check)


def test_the_inbox_names_the_parent(store: Store, moment: Moment) -> None:
    """While the child's approval is open its parent sleeps, and whoever looks at it sees for whom it is asked."""
    forget(EDIT, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(editor, "an issue")
        await lab.settle()
        assert await lab.state(run) == "waiting"
        assert [wait.kind for wait in await lab.waits(run)] == ["child"]
        (item,) = (await Client(lab.store).inbox()).items
        assert (item.asks, item.what, item.parent) == ("approve", "publish?", run.name)
        assert item.run.startswith("researcher-")

    on(store, moment, app, check)


def test_what_a_person_denies_the_child_it_tells_its_parent(store: Store, moment: Moment) -> None:
    """The denial is a result for the child's model, which answers all the same."""
    forget(EDIT, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(editor, "an issue")
        await lab.settle()
        await lab.deny("publish?", by="bob", note="not yet")
        assert await lab.result(run) == "all is said"
        assert results(RESEARCH) == [
            ("publish", "bob denied this call of publish: not yet. It was not made.", "denied")
        ]
        assert told(EDIT)[0] == ["researcher", {"words": 12}, "success"]
        assert not SEEN["publish roofs"]

    on(store, moment, app, check)


def test_a_person_is_asked_before_a_child_is_started(store: Store, moment: Moment) -> None:
    """A delegation may need consent as any tool: denied, there is no child, edited, the child is told something else."""
    forget(EDIT, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(careful, "an issue")
        await lab.settle()
        await lab.deny("researcher?", by="bob")
        assert await lab.result(run) == "all is said"
        assert await family(lab, run) == []
        assert results(EDIT)[0] == ("researcher", "bob denied this call of researcher. It was not made.", "denied")
        run = await lab.start(careful, "another issue")
        await lab.settle()
        await lab.approve("researcher?", by="bob", edits={"prompt": "write about walls"})
        await lab.settle()
        await lab.approve("publish?")
        assert await lab.result(run) == "all is said"
        assert prompts(RESEARCH) == ["write about walls"]

    on(store, moment, app, check)


def test_a_child_that_fails_is_one_result_that_says_so(store: Store, moment: Moment) -> None:
    """The parent's model hears what went wrong, and goes on."""
    forget(ASKS_LOST, LOST)

    async def check(lab: Lab) -> None:
        run = await lab.start(asks_lost, "ask")
        assert await lab.result(run) == "nobody is there"
        ((name, said, outcome),) = results(ASKS_LOST)
        assert (name, outcome) == ("lost", "failed")
        assert said == "lost failed: ValueError: nobody knows the way"
        (child,) = await family(lab, run)
        assert await lab.state(child) == "failed"

    on(store, moment, app, check)


def test_a_child_that_is_cancelled_is_one_result(store: Store, moment: Moment) -> None:
    """Somebody cancels the child alone: its parent is told."""
    forget(EDIT, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(editor, "an issue")
        await lab.settle()
        (child,) = await family(lab, run)
        await lab.cancel(child)
        assert await lab.result(run) == "all is said"
        assert results(EDIT)[0] == ("researcher", "researcher was cancelled", "failed")

    on(store, moment, app, check)


def test_a_cancelled_parent_takes_its_child_along(store: Store, moment: Moment) -> None:
    """The child ends as cancelled, its approval is closed, and nothing was published (C21)."""
    forget(EDIT, RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(editor, "an issue")
        await lab.settle()
        (child,) = await family(lab, run)
        await lab.cancel(run)
        await lab.settle()
        assert [await lab.state(one) for one in (run, child)] == [State.CANCELLED.word] * 2
        assert (await Client(lab.store).inbox()).items == []
        assert not SEEN["publish roofs"]

    on(store, moment, app, check)


def test_two_children_of_one_answer_work_side_by_side(store: Store, moment: Moment) -> None:
    """Each call has a child of its own, and each result goes to its call."""
    forget(PAIR, SHORT)

    async def check(lab: Lab) -> None:
        run = await lab.start(pair, "both")
        assert await lab.result(run) == "both are said"
        assert len(await family(lab, run)) == 2
        assert results(PAIR) == [("ask", "about roofs", "success"), ("ask", "about walls", "success")]

    on(store, moment, app, check)


def test_a_flow_gets_what_the_agent_gives_back(store: Store, moment: Moment) -> None:
    """The child's output is the agent's own type."""
    forget(RESEARCH)

    async def check(lab: Lab) -> None:
        run = await lab.start(press, "roofs")
        await lab.settle()
        await lab.approve("publish?")
        assert await lab.result(run) == 13

    on(store, moment, app, check)


def test_without_torpor_the_agent_is_asked_as_it_is() -> None:
    """The same agent in a plain `run`: the tool asks the other agent, as pydantic-ai's own delegation does."""
    forget(PAIR, SHORT)
    agent: Agent[Any, Any] = agent_of(PAIR, app.delegate(short, name="ask"))
    assert asyncio.run(agent.run("both")).output == "both are said"
    assert results(PAIR)[1] == ("ask", "about walls", "success")


def test_without_torpor_a_program_that_is_no_agent_says_so() -> None:
    """A flow runs nowhere else."""
    forget(ASKS_LOST)
    agent: Agent[Any, Any] = agent_of(ASKS_LOST, app.delegate(press, name="lost"))
    with pytest.raises(UsageError, match="press is a program of torpor"):
        asyncio.run(agent.run("ask"))


def test_what_cannot_be_delegated_to() -> None:
    """Each is refused where it is declared."""
    own = App()
    talker = own.agent("talker", agent_of(SHORT), conversation=True)
    with pytest.raises(UsageError, match="talker is a conversation"):
        own.delegate(talker)
    with pytest.raises(UsageError, match="look is no program"):
        own.delegate(look)

    @own.flow
    async def twice(ctx: Context, subject: str) -> str:
        return f"{ctx.run_id} {subject}"

    own.flow(name="other")(twice)
    with pytest.raises(UsageError, match="twice is registered under several names"):
        own.delegate(twice)
