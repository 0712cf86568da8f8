"""What an agent is told about its sleep: how long, and what woke it; the same wherever it is taken up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.scripted import SEEN, agent_of, asked, began_with, forget, prompts, results
from tests.worker.labs import on
from torpor import App, Milestone
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

LONG = 3 * 86_400 + 2 * 3600.0


def deploy(env: str) -> str:
    """Deploy."""
    SEEN[f"deploy {env}"] += 1
    return f"deployed to {env}"


DEPLOYS = Script(call("deploy", env="prod"), "deployed", model="deploys")
TALKS = Script("hello", "good, and you?", model="talks")
CHILD = Script(call("deploy", env="test"), "tested", model="child")
PARENT = Script(call("checker", prompt="test it"), "tested and deployed", model="parent")
STEPS = Script(
    lambda messages, _agent: call("deploy", env="prod") if "Milestone 1" in began_with(messages) else "all is deployed",
    "it is deployed",
    model="steps",
)

app = App()
aware = app.agent("aware", agent_of(DEPLOYS, deploy), approve={"deploy": True}, reentry=True)
plain = app.agent("plain", agent_of(DEPLOYS, deploy), approve={"deploy": True})
talker = app.agent("talker", agent_of(TALKS), conversation=True, reentry=True)
checker = app.agent("checker", agent_of(CHILD, deploy), approve={"deploy": True})
parent = app.agent("parent", agent_of(PARENT, app.delegate(checker)), reentry=True)
planned = app.agent(
    "planned",
    agent_of(STEPS, deploy),
    approve={"deploy": True},
    planner=lambda goal: [Milestone(f"deploy {goal}"), Milestone("tell", worker="aware")],
    workers=["aware"],
)


async def slowly(lab: Lab, run: Run) -> None:
    """Approve what is asked, days later; say of a call whose worker died with it what the world says."""
    await lab.settle()
    lab.advance(LONG)
    for _ in range(3):
        for wait in await lab.waits(run):
            if wait.kind == "approval":
                await lab.approve(wait, by="ada")
            elif SEEN["deploy prod"]:
                await lab.answer(wait, happened="deployed to prod")
            else:
                await lab.answer(wait, again=True)
        await lab.settle()


@pytest.mark.slow
def test_the_model_is_told_the_same_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """It slept for days until a person approved; that is said once, with the result of what was approved."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(aware, "deploy", drive=slowly, before=lambda: forget(DEPLOYS)):
            assert await crash.result() == "deployed", crash
            told = prompts(DEPLOYS)
            assert told[:1] == ["deploy"], crash
            assert told[1:] == ["You slept 3 d 2 h, and woke because ada approved deploy."], crash
            assert results(DEPLOYS) == [("deploy", "deployed to prod", "success")], crash

    on(store, moment, app, check)


@pytest.mark.parametrize(("program", "seconds"), [(plain, LONG), (aware, 600.0)])
def test_what_is_not_asked_for_or_short_is_not_told(store: Store, moment: Moment, program: Any, seconds: float) -> None:
    """Ordinary conversations stay as they are."""
    forget(DEPLOYS)

    async def check(lab: Lab) -> None:
        run = await lab.start(program, "deploy")
        await lab.settle()
        lab.advance(seconds)
        await lab.approve(run, by="ada")
        assert await lab.result(run) == "deployed"
        assert prompts(DEPLOYS) == ["deploy"]

    on(store, moment, app, check)


@pytest.mark.parametrize("slept", [60.0, 7200.0])
@pytest.mark.parametrize("safety", ["once", "repeatable"])
def test_a_tool_that_works_for_long_is_no_sleep(store: Store, moment: Moment, safety: str, slept: float) -> None:
    """Three days of work after a person's consent are not said to have been slept."""
    model, own = Script(call("work"), "done"), App()

    def work() -> str:
        moment.advance(LONG)
        return "worked"

    worker = own.agent("worker", agent_of(model, work), approve={"work": True}, safety={"work": safety}, reentry=True)

    async def check(lab: Lab) -> None:
        run = await lab.start(worker, "go")
        await lab.settle()
        lab.advance(slept)
        await lab.approve(run, by="ada")
        assert await lab.result(run) == "done"
        told = ["You slept 2 h, and woke because ada approved work."] if slept > 3600 else []
        assert prompts(model) == ["go", *told]

    on(store, moment, own, check, lease_seconds=2 * LONG)  # the clock is moved past any other lease while it works


def test_a_denial_is_told(store: Store, moment: Moment) -> None:
    """The reason stands in the result, how long it took beside it."""
    forget(DEPLOYS)

    async def check(lab: Lab) -> None:
        run = await lab.start(aware, "deploy")
        await lab.settle()
        lab.advance(7200)
        await lab.deny(run, by="ada", note="not on a Friday")
        assert await lab.result(run) == "deployed"
        assert prompts(DEPLOYS) == ["deploy", "You slept 2 h, and woke because ada denied deploy."]

    on(store, moment, app, check)


def test_a_conversation_that_slept(store: Store, moment: Moment) -> None:
    """The line comes before what was written."""
    forget(TALKS)

    async def check(lab: Lab) -> None:
        run = await lab.start(talker, "hi")
        await lab.settle()
        lab.advance(LONG)
        await lab.signal(run, "message", "how are you?")
        await lab.settle()
        assert prompts(TALKS) == ["hi", "You slept 3 d 2 h, and woke because somebody wrote.\n\nhow are you?"]
        assert asked(TALKS) == [0, 1]

    on(store, moment, app, check)


def test_a_child_that_took_long(store: Store, moment: Moment) -> None:
    """The parent slept as long as its child waited for a person."""
    forget(PARENT, CHILD)

    async def check(lab: Lab) -> None:
        run = await lab.start(parent, "go")
        await lab.settle()
        lab.advance(LONG)
        await lab.approve("deploy?", by="ada")
        assert await lab.result(run) == "tested and deployed"
        assert prompts(PARENT) == ["go", "You slept 3 d 2 h, and woke because checker answered."]

    on(store, moment, app, check)


def test_a_sleep_inside_a_milestone_is_told_to_the_next_one(store: Store, moment: Moment) -> None:
    """The longest one since a model was told, and not the few moments of a worker after it."""
    forget(STEPS, DEPLOYS)

    async def check(lab: Lab) -> None:
        run = await lab.start(planned, "prod")
        await lab.settle()
        lab.advance(LONG)
        await lab.approve("deploy?", by="ada")
        await lab.settle()
        await lab.approve("deploy?", by="bob")
        assert await lab.result(run) == "all is deployed"
        assert "You slept 3 d 2 h, and woke because ada approved deploy." in prompts(STEPS)[0]

    on(store, moment, app, check)
