"""A plain tool runs in a thread, which nobody can stop: the log says so, and says when it has ended."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pydantic_ai.capabilities import UseThreadExecutor

from tests.agent.scripted import agent_of, forget
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App, Client
from torpor.testing import Script, call

if TYPE_CHECKING:
    import pytest

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

END = "an interrupted call ended"
BEGUN, RELEASED, ENDED = threading.Event(), threading.Event(), threading.Event()
NAMES: list[str] = []
WRITTEN: list[str] = []


class Heard(logging.Handler):
    """Says when the end of a call was logged."""

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a line."""
        if END in record.getMessage():
            ENDED.set()


def write(name: str) -> str:
    """Block, and write then."""
    NAMES.append(threading.current_thread().name)
    BEGUN.set()
    RELEASED.wait(PATIENCE_SECONDS)
    WRITTEN.append(name)
    return "it is written"


script = Script(call("write", name="a"), "well")
own = Script(call("write", name="a"), "well", model="own")
app = App()
app.agent("writer", agent_of(script, write), safety={"write": "keyed"}, conversation=True)
POOL = ThreadPoolExecutor(1, thread_name_prefix="the author's")
app.agent("own", agent_of(own, write, capabilities=[UseThreadExecutor(POOL)]), safety={"write": "keyed"})


def fresh() -> None:
    """Begin a test."""
    forget(script, own)
    for event in (BEGUN, RELEASED, ENDED):
        event.clear()
    NAMES.clear()
    WRITTEN.clear()


def test_the_log_does_not_say_that_a_thread_stopped(
    store: Store, moment: Moment, caplog: pytest.LogCaptureFixture
) -> None:
    """While it goes on the log says that, and that it has ended when it has."""
    fresh()

    def said(event: str) -> list[str]:
        return [record.getMessage() for record in caplog.records if event in record.getMessage()]

    async def check(lab: Lab) -> None:
        await lab.worker()
        run = await lab.start("writer", "go")
        assert await asyncio.to_thread(BEGUN.wait, PATIENCE_SECONDS)
        await Client(lab.store).interrupt(run.name, by="ada", reason="stop")
        await lab.settle()
        try:
            assert WRITTEN == []
            (goes_on,) = said("an interrupted call goes on")
            assert "thread" in goes_on
            assert said(END) == []
        finally:
            RELEASED.set()
        assert await asyncio.to_thread(ENDED.wait, PATIENCE_SECONDS)
        (ended,) = said(END)
        assert "it gave something back, which nobody gets" in ended
        assert WRITTEN == ["a"]

    logger, heard = logging.getLogger("torpor"), Heard()
    logger.addHandler(heard)
    try:
        with caplog.at_level(logging.INFO, "torpor"):
            on(store, moment, app, check)
    finally:
        logger.removeHandler(heard)


def test_threads_are_the_workers_or_the_authors(store: Store, moment: Moment) -> None:
    """An executor that the author gave the agent is the one that is used."""
    fresh()
    RELEASED.set()

    async def check(lab: Lab) -> None:
        for name in ("writer", "own"):
            await lab.start(name, "go")
            await lab.settle()
        of_worker, of_author = NAMES
        assert of_worker.startswith("torpor-step")
        assert of_author.startswith("the author's")

    on(store, moment, app, check)
