"""Talking to an agent: while it works, while it waits for a person, after its answer, and into its word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.agent.scripted import SEEN, agent_of, asked, forget, prompts, results
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App
from torpor.client import Client
from torpor.testing import Script, call

if TYPE_CHECKING:
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


app = App()
DEPLOYS = Script(call("deploy", env="prod"), "deployed")
DIGS = Script(call("dig", where="garden"), "dug")
TALKS = Script("hello", "good, and you?")
careful = app.agent("careful", agent_of(DEPLOYS, deploy), approve={"deploy": True})
digger = app.agent("digger", agent_of(DIGS, dig), safety={"dig": "repeatable"})
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
