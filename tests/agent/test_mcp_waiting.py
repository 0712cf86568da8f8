"""An MCP server that does not answer yet: whoever reads the log knows for whom the run waits."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from tests.agent.shops import Shop
from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App
from torpor.agent import servers
from torpor.testing import Script, call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores import Moment, Place
    from torpor.testing import Lab

pytestmark = pytest.mark.slow


class Starts(logging.Handler):
    """Starts a server when it is said that it is waited for."""

    def __init__(self, shop: Shop) -> None:
        """Hear nothing yet."""
        super().__init__()
        self.shop = shop
        self.said: list[str] = []
        self.starting: list[threading.Thread] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Start it, in a thread of its own: whoever says it waits for nothing."""
        if "waited for" not in record.getMessage():
            return
        self.said.append(record.getMessage())
        if not self.starting:
            self.starting.append(threading.Thread(target=self.shop.start))
            self.starting[0].start()


def test_a_server_that_is_waited_for_is_said(
    tmp_path: Path, make_place: Any, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, by its name, while it may still come: here it is started by whoever reads that."""
    monkeypatch.setattr(servers, "CONNECT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(servers, "SAID_SECONDS", 0.0)
    place: Place = make_place("memory")
    shop = Shop(tmp_path, "http")
    toolset: Any = MCPToolset(f"http://127.0.0.1:{shop.port}/mcp", id="shop", init_timeout=PATIENCE_SECONDS)
    app = App()
    app.agent("keeper", Agent(Script(call("look"), "done"), toolsets=[toolset]), safety={"look": "repeatable"})
    starts, log = Starts(shop), logging.getLogger("torpor.agent")

    async def check(lab: Lab) -> None:
        run = await lab.start("keeper", "shop")
        assert await lab.result(run) == "done"
        words = f"does not answer yet; it is waited for, {PATIENCE_SECONDS:.0f} s at most"
        assert starts.said == [f"keeper: the MCP server shop {words}"]
        assert shop.acts == ["look"]

    log.addHandler(starts)
    try:
        on(place.open(), moment, app, check)
    finally:
        log.removeHandler(starts)
        for one in starts.starting:
            one.join()
        shop.end()
