"""Turns of an agent: wherever its worker dies, what the model and the tools said is there once, and nothing is done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from tests.agent.scripted import SEEN, agent_of, asked, forget, results
from tests.worker.labs import on
from torpor import App, tool_context
from torpor.agent.state import AgentState
from torpor.agent.transcript import read
from torpor.store import values
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run


class Report(BaseModel):
    """What the agent gives back."""

    sum: int
    deployed: str


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    SEEN[f"add {a}"] += 1
    return a + b


async def deploy(env: str) -> str:
    """Deploy."""
    SEEN[f"deploy {env}"] += 1
    return f"deployed to {env}"


SCRIPT = Script(
    ["let me see", call("add", a=1, b=2), call("add", a=5, b=5)],
    [call("deploy", env="prod"), call("add", a=7, b=0)],
    [call("final_result", sum=20, deployed="prod")],
)
app = App()
support = app.agent(
    "support",
    agent_of(SCRIPT, add, deploy, output_type=Report),
    safety={"add": "repeatable", "deploy": "once"},
    approve={"deploy": True},
)
RESULTS = [
    ("add", 3, "success"),
    ("add", 10, "success"),
    ("deploy", "deployed to prod", "success"),
    ("add", 7, "success"),
]


async def people(lab: Lab, run: Run) -> None:
    """Approve what is asked; say of the deploy, if its worker died with it, what the world says."""
    await lab.settle()
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
def test_a_run_survives_wherever_its_worker_dies(store: Store, moment: Moment) -> None:
    """The deploy acts once; a model is asked again only if its worker died with the answer; usage and results are the same."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(support, "hello", drive=people, before=lambda: forget(SCRIPT)):
            assert await crash.result() == Report(sum=20, deployed="prod"), crash
            assert SEEN["deploy prod"] == 1, crash
            asked_again = len(asked(SCRIPT)) - len(set(asked(SCRIPT)))
            assert asked_again <= (crash.place is not Place.AFTER), (crash, asked(SCRIPT))
            assert results(SCRIPT) == RESULTS, crash
            state = await last_state(lab, crash.run)
            assert state.usage == {"requests": 2, "tool_calls": 4, "input_tokens": 200, "output_tokens": 40}, crash

    on(store, moment, app, check)


async def last_state(lab: Lab, run: Run) -> AgentState:
    """Return the state of the last checkpoint: what the third turn began from."""
    row = (await lab.store.transact(lambda tx: tx.states([run.number])))[run.number]
    state = values.decode(row.body)
    assert isinstance(state, AgentState)
    return state


def test_messages_are_written_once(store: Store, moment: Moment) -> None:
    """Each turn appends what was closed in it, and the state holds the open request only."""
    forget(SCRIPT)

    async def check(lab: Lab) -> None:
        run = await lab.start(support, "hello")
        await people(lab, run)
        kept = await lab.store.transact(lambda tx: tx.get_rows(run.number, "messages", after=0, limit=100))
        assert len(kept) == 4
        state = await last_state(lab, run)
        assert [type(read(one)).__name__ for one in state.tail] == ["ModelRequest"]

    on(store, moment, app, check)


CALLED: list[tuple[str, int]] = []
"""The key and the attempt that a tool was told, each time it was called."""


async def send(what: str) -> str:
    """Send."""
    told = tool_context()
    CALLED.append((told.key, told.attempt))
    return f"sent {what}"


SENDS = Script(call("send", what="it"), "done", model="sends")


def test_an_attempt_whose_worker_died_is_not_counted(store: Store, moment: Moment) -> None:
    """A `keyed` tool that is called again has the same key and the same number: only an end on record makes it one more."""
    sends = App()
    sends.agent("sends", agent_of(SENDS, send), safety={"send": "keyed"})

    async def check(lab: Lab) -> None:
        twice = 0
        for point in range(1, 7):
            forget(SENDS)
            CALLED.clear()
            lab.crash(Place.BEFORE, point)
            assert await lab.result(await lab.start("sends", "go")) == "done"
            assert set(CALLED) == {(CALLED[0][0], 1)}
            twice += len(CALLED) - 1
        assert twice, "none died between the act and its record"

    on(store, moment, sends, check)
