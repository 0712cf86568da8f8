"""A worker whose loop is blocked says so, and where (G13)."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from torpor import App, Context
from torpor.client import Client
from torpor.runtime import Process

if TYPE_CHECKING:
    from torpor.store.protocol import Store

SAID = threading.Event()
app = App()


@app.flow
async def spinning(ctx: Context, number: int) -> int:
    """Block the loop until the worker complains about it."""
    assert ctx.turn == 1
    while not SAID.is_set():
        pass
    return number


class Ear(logging.Handler):
    """Hears the complaint in the renewing thread, while the loop stands still."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        super().__init__()
        self.heard = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Remember it and let the flow go on."""
        text = record.getMessage()
        if "has not moved" in text:
            self.heard = text
            SAID.set()


def test_a_blocked_loop_is_said_with_its_place(store: Store) -> None:
    """A flow that loops for ever keeps its lease, so somebody must say why nothing moves."""
    SAID.clear()
    ear = Ear()
    logging.getLogger("torpor.worker").addHandler(ear)

    async def main() -> object:
        process = Process(store, app, lease_seconds=1.0)
        working = asyncio.create_task(process.run())
        await process.worker.ready.wait()
        client = Client(store)
        started = await client.start("spinning", 7)
        result = await client.result(started.run_id, timeout_seconds=60)
        process.worker.stop()
        await working
        return result

    try:
        assert asyncio.run(main()) == 7
    finally:
        logging.getLogger("torpor.worker").removeHandler(ear)
    assert "test_blocked_loop.py" in ear.heard
    assert "in spinning" in ear.heard
