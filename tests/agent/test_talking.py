"""Talking to an agent: while it works, while it waits for a person, after its answer, and into its word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.scripted import SEEN, agent_of, asked, forget, prompts, results
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App, Budget, Plan
from torpor.client import Client
from torpor.testing import Script, call

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

HELD: list[asyncio.Event] = []


def deploy(env: str) -> str:
    """Deploy."""
    SEEN[f"deploy {env}"] += 1
    return f"deployed to {env}"


async def dig(where: str) -> str:
    """Dig for as long as the test says."""
    SEEN[f"dig {where}"] += 1
    begun, released = HELD
    begun.set()
    await released.wait()
    return f"nothing in {where}"


async def think(messages: list[ModelMessage], _agent: object) -> str:
    """Think for as long as the test says, the first time that it is asked."""
    begun, released = HELD
    if not begun.is_set():
        begun.set()
        await released.wait()
    return f"thought of {len(messages)} messages"


async def revises(goal: str, plan: Plan | None = None) -> list[str] | None:
    """Plan two steps, and think about the second once the first is done."""
    SEEN[f"plan {goal}"] += 1
    if plan is not None:
        await think([], None)
    return ["one", "two"] if plan is None else None


app = App()
DEPLOYS = Script(call("deploy", env="prod"), "deployed", "checked")
DIGS = Script(call("dig", where="garden"), "dug")
TALKS = Script("hello", "good, and you?")
THINKS = Script(think)
careful = app.agent("careful", agent_of(DEPLOYS, deploy), approve={"deploy": True})
digger = app.agent("digger", agent_of(DIGS, dig), safety={"dig": "repeatable"})
STEPS = Script(*["done"] * 3)
stepper = app.agent("stepper", agent_of(STEPS), planner=revises)
thinker = app.agent("thinker", agent_of(THINKS))
spender = app.agent("spender", agent_of(DEPLOYS, deploy), safety={"deploy": "keyed"}, budget=Budget(model_calls=1))
talker = app.agent("talker", agent_of(TALKS), conversation=True, deps=lambda: SEEN.update(["a loop began"]))


def test_a_message_beside_an_approval_is_no_decision(store: Store, moment: Moment) -> None:
    """It is queued: the approval stays open, and the model hears it once, with the result of what was decided."""
    forget(DEPLOYS)

    async def check(lab: Lab) -> None:
        run = await lab.start(careful, "deploy")
        await lab.settle()
        await lab.signal(run, "message", "please also check Y")
        await lab.kill()
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run)] == ["approval"]
        await lab.approve(run, by="ada")
        assert await lab.result(run) == "deployed"
        assert SEEN["deploy prod"] == 1
        assert prompts(DEPLOYS) == ["deploy", "please also check Y"]
        assert results(DEPLOYS) == [("deploy", "deployed to prod", "success")]

    on(store, moment, app, check)


def test_an_interrupted_tool_has_a_result_and_the_talk_goes_on(store: Store, moment: Moment) -> None:
    """A person stops a tool and says what now: the model gets one result for the call, and the message."""
    forget(DIGS)

    async def check(lab: Lab) -> None:
        HELD[:] = [asyncio.Event(), asyncio.Event()]
        await lab.worker()
        run = await lab.start(digger, "dig")
        await asyncio.wait_for(HELD[0].wait(), PATIENCE_SECONDS)
        await Client(lab.store).interrupt(run.name, by="ada", reason="wrong garden")
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run)] == ["message"]
        await lab.signal(run, "message", "come in")
        assert await lab.result(run) == "dug"
        assert results(DIGS) == [
            ("dig", "A person interrupted this call: wrong garden. It had begun: its effects are unknown.", "failed"),
        ]
        assert prompts(DIGS) == ["dig", "come in"]

    on(store, moment, app, check)


def test_a_conversation_goes_on_after_an_answer(store: Store, moment: Moment) -> None:
    """It sleeps until the next message, whoever takes it up, and remembers."""
    forget(TALKS)

    async def check(lab: Lab) -> None:
        run = await lab.start(talker, "hi")
        await lab.settle()
        await lab.kill()
        await lab.signal(run, "message", "how are you?")
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run)] == ["message"]
        assert prompts(TALKS) == ["hi", "how are you?"]
        assert asked(TALKS) == [0, 1]
        assert SEEN["a loop began"] == 2, "one for each message: what was answered is not played once more"

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("program", "model", "said"),
    [(digger, DIGS, ["go", "come in"]), (thinker, THINKS, ["go\n\ncome in"]), (talker, TALKS, ["go", "come in"])],
)
def test_who_listens_already_is_not_ended_by_an_interrupt(
    store: Store, moment: Moment, program: Any, model: Script, said: list[str]
) -> None:
    """Somebody stops a tool, or a model, and stops it again before they say what now; or interrupts where nothing goes on."""
    forget(DIGS, THINKS, TALKS)

    async def check(lab: Lab) -> None:
        HELD[:] = [asyncio.Event(), asyncio.Event()]
        client = Client(lab.store)
        await lab.worker()
        run = await lab.start(program, "go")
        if program is talker:
            await lab.settle()
        else:
            await asyncio.wait_for(HELD[0].wait(), PATIENCE_SECONDS)
        for reason in ("stop", "I said stop"):
            await client.interrupt(run.name, by="ada", reason=reason)
            await lab.settle()
            assert [wait.kind for wait in await lab.waits(run)] == ["message"]
        await lab.kill()
        await lab.signal(run, "message", "come in")
        await lab.settle()
        assert await lab.state(run) == ("waiting" if program is talker else "completed")
        assert prompts(model) == said

    on(store, moment, app, check)


def test_everything_that_was_said_is_heard_with_the_next_call(store: Store, moment: Moment) -> None:
    """Somebody writes three times while a tool works: the model is asked once about all of it."""
    forget(DIGS)

    async def check(lab: Lab) -> None:
        HELD[:] = [asyncio.Event(), asyncio.Event()]
        await lab.worker()
        run = await lab.start(digger, "dig")
        await asyncio.wait_for(HELD[0].wait(), PATIENCE_SECONDS)
        for word in ("and", "then", "come in"):
            await lab.signal(run, "message", word)
        await lab.kill()
        HELD[1].set()
        assert await lab.result(run) == "dug"
        assert prompts(DIGS) == ["dig", "and\n\nthen\n\ncome in"]
        assert asked(DIGS) == [0, 1]

    on(store, moment, app, check)


def test_what_is_said_into_a_revision_of_the_plan_is_heard(store: Store, moment: Moment) -> None:
    """By the planner, which is asked again, and by whoever does what is left: it belongs to the goal, as before the plan."""
    forget(STEPS)

    async def check(lab: Lab) -> None:
        HELD[:] = [asyncio.Event(), asyncio.Event()]
        await lab.worker()
        run = await lab.start(stepper, "paint it")
        await asyncio.wait_for(HELD[0].wait(), PATIENCE_SECONDS)
        await Client(lab.store).interrupt(run.name, by="ada")
        await lab.settle()
        lines = (await Client(lab.store).show(run.name)).lines
        assert [line.what for line in lines if line.outcome == "failed"] == ["revises#1 Interrupted"]
        await lab.signal(run, "message", "in blue")
        assert await lab.result(run) == "done"
        assert SEEN["plan paint it\n\nin blue"] == 1
        assert prompts(STEPS)[0].startswith("# Goal\npaint it\n\nin blue\n")

    on(store, moment, app, check)


@pytest.mark.parametrize("answered", [False, True])
def test_a_message_beside_a_question_leaves_it_as_it_is(store: Store, moment: Moment, *, answered: bool) -> None:
    """Also if both have come by the time that a worker looks: what a person granted counts, and the message is heard."""
    forget(DEPLOYS)

    async def check(lab: Lab) -> None:
        run = await lab.start(spender, "deploy")
        await lab.settle()
        [asks] = await lab.waits(run)
        await lab.drain()
        await lab.signal(run, "message", "please also check Y")
        if not answered:
            await lab.settle()
            assert await lab.waits(run) == [asks]
        await lab.answer(asks, value=9)
        assert await lab.result(run) == "checked"
        assert prompts(DEPLOYS) == ["deploy", "please also check Y"]

    on(store, moment, app, check)
