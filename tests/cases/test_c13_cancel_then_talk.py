"""C13: cancel while a tool is running, then go on talking.

A tool writes file 1, waits, writes file 2. A person interrupts in between; the tool ignores it for 10 s and then returns. A
message comes after 2 s and another after 15 s. Right: both are answered. The call's recorded result says interrupted,
effects unknown, and stays so; the late return is logged, not inserted a second time.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.agent.scripted import agent_of, asked, forget, kept_messages, prompts, results, returns
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on, until
from torpor import App, clock
from torpor.agent.transcript import read
from torpor.client import Client
from torpor.core.ids import run_name
from torpor.core.run import State
from torpor.testing import Script, call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cases.world import World
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

IGNORES_SECONDS = 10.0
SAFETIES = ("once", "keyed", "repeatable")
RESULT = "A person interrupted this call: not there. It had begun: its effects are unknown."
app = App()


class Held:
    """What one test's tool is at."""

    def __init__(self) -> None:
        """Begin."""
        self.begun, self.released, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.files: list[str] = []


HELD: list[Held] = []


async def write(name: str) -> str:
    """Write two files, and ignore whoever wants to stop it in between."""
    held = HELD[-1]
    held.files.append(f"{name} 1")
    held.begun.set()
    while not held.released.is_set():
        with suppress(asyncio.CancelledError):
            await held.released.wait()
    held.files.append(f"{name} 2")
    held.over.set()
    return "both are written"


SCRIPT = Script(call("write", name="a"), "then I leave it", "it may be there")
for safety in SAFETIES:
    app.agent(safety, agent_of(SCRIPT, write), safety={"write": safety}, conversation=True)


@pytest.mark.parametrize("then", ["goes on", "dies"])
@pytest.mark.parametrize("safety", SAFETIES)
def test_the_talk_goes_on(
    store: Store, moment: Moment, caplog: pytest.LogCaptureFixture, safety: str, then: str
) -> None:
    """Whatever is declared of the tool, and whoever has the run when it returns."""
    forget(SCRIPT)
    HELD[:] = [Held()]

    async def check(lab: Lab) -> None:
        held = HELD[-1]
        await lab.worker()
        run = await lab.start(safety, "write")
        await asyncio.wait_for(held.begun.wait(), PATIENCE_SECONDS)
        await Client(lab.store).interrupt(run.name, by="ada", reason="not there")
        lab.advance(2)
        await lab.signal(run, "message", "leave it")
        await lab.settle()
        assert asked(SCRIPT) == [0, 1], "the tool is at it still, and the message is answered"
        assert results(SCRIPT) == [("write", RESULT, "failed")]
        assert prompts(SCRIPT) == ["write", "leave it"]
        lab.advance(8)
        if then == "dies":
            await lab.kill()
            await lab.settle()
        before = [str(line) for line in await lab.journal(run)]
        held.released.set()
        if then == "goes on":
            await asyncio.wait_for(held.over.wait(), PATIENCE_SECONDS)
            assert held.files == ["a 1", "a 2"]
            await asyncio.wait_for(until(lambda: late_ends(caplog)), PATIENCE_SECONDS)
        await lab.settle()
        assert [str(line) for line in await lab.journal(run)] == before, "nothing is inserted"
        lab.advance(5)
        await lab.signal(run, "message", "is it there?")
        await lab.settle()
        assert asked(SCRIPT) == [0, 1, 2]
        assert prompts(SCRIPT) == ["write", "leave it", "is it there?"]
        assert results(SCRIPT) == [("write", RESULT, "failed")], "as it was said first"
        assert [wait.kind for wait in await lab.waits(run)] == ["message"]
        assert held.files.count("a 1") == 1

    with caplog.at_level(logging.INFO, "torpor"):
        on(store, moment, app, check)


def late_ends(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log's lines about an interrupted call that ended."""
    return [record.getMessage() for record in caplog.records if "an interrupted call ended" in record.getMessage()]


def answers(world: World, run: int) -> list[str]:
    """Return the text of each answer of a run's model."""
    found = [read(line.value) for line in world.entries(run, "outcome") if line.key.startswith("model")]
    return ["".join(part.content for part in message.parts if part.part_kind == "text") for message in found]


@pytest.mark.slow
def test_ten_seconds_of_a_real_clock(world: World, tmp_path: Path) -> None:
    """The same with a real worker, real files, a tool that ignores the interrupt for ten real seconds, and real moments."""
    member = world.worker("agents")
    run = world.start("writer", str(tmp_path))
    name = run_name("writer", run)
    world.outside.next("begun")
    began = clock.monotonic()

    def at(seconds: float) -> None:
        world.until(lambda: clock.monotonic() - began >= seconds, f"{seconds:g} seconds passed")

    def heard(count: int) -> Callable[[], bool]:
        return lambda: world.run(run).state is State.WAITING and len(answers(world, run)) == count

    asyncio.run(Client(world.store).interrupt(name, by="ada", reason="not there"))
    at(2)
    world.signal(run, "message", "leave it")
    world.until(heard(2), "the first message is answered")
    assert clock.monotonic() - began < IGNORES_SECONDS, "before the tool has returned"
    assert not (tmp_path / "2").exists()
    world.until((tmp_path / "2").exists, "the tool has ended")
    world.until(lambda: "an interrupted call ended" in member.log, "its end is logged")
    at(15)
    world.signal(run, "message", "is it there?")
    world.until(heard(3), "the second message is answered")
    assert [content for _, content, _ in returns(kept_messages(world.store, run))] == [RESULT]
    assert answers(world, run) == ["", "then I leave it", "it may be there"]
    assert len(world.outside.all("begun")) == 1
