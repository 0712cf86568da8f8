"""A server of the tests, started and restarted by either way, and an agent that has its tools."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from tests.agent.scripted import results
from tests.house.tree import ROOT
from tests.patience import PATIENCE_SECONDS
from torpor import App
from torpor.testing import Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic_ai import AbstractToolset


class Shop:
    """A server of the tests, in a folder, by either way."""

    def __init__(self, folder: Path, kind: str) -> None:
        """Start nothing yet."""
        self.folder = folder
        self.kind = kind
        self.process: subprocess.Popen[bytes] | None = None
        self.keeping: threading.Thread | None = None
        self.over = False
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def toolset(self, *, keep_alive: bool = False) -> AbstractToolset[Any]:
        """Return the way to it."""
        if self.kind == "http":
            self.start()
            return MCPToolset(f"http://127.0.0.1:{self.port}/mcp", id="shop", init_timeout=PATIENCE_SECONDS)
        transport = StdioTransport(
            sys.executable,
            ["-m", "tests.agent.shop_server", str(self.folder)],
            cwd=str(ROOT),
            keep_alive=keep_alive,
            log_file=self.folder / "log",
        )
        return MCPToolset(transport, id="shop", init_timeout=PATIENCE_SECONDS)

    def start(self) -> None:
        """Keep an HTTP server running, as a supervisor does; return once one listens."""
        if self.keeping is None:
            self.keeping = threading.Thread(target=self._keep)
            self.keeping.start()
        self._wait(None)

    def _keep(self) -> None:
        command = [sys.executable, "-m", "tests.agent.shop_server", str(self.folder), str(self.port)]
        with (self.folder / "log").open("ab") as log:
            while not self.over:
                self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
                self.process.wait()

    def _wait(self, gone: subprocess.Popen[bytes] | None) -> None:
        while True:
            with socket.socket() as tried:
                if self.process is not gone and tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return

    def restart(self) -> None:
        """Let the HTTP server be another process; a program over stdio is started by whoever needs it."""
        if self.process is not None:
            gone = self.process
            gone.kill()
            self._wait(gone)

    def end(self) -> None:
        """Let no HTTP server run any more."""
        self.over = True
        if self.process is not None and self.keeping is not None:
            self.process.kill()
            self.keeping.join()

    def deadly(self, tool: str) -> None:
        """Let the next call of a tool be the server's last."""
        (self.folder / f"die-{tool}").touch()

    @property
    def acts(self) -> list[str]:
        """What was done, in order."""
        place = self.folder / "acts"
        return [line.split()[0] for line in place.read_text().splitlines()] if place.exists() else []

    @property
    def pids(self) -> list[str]:
        """Who did it."""
        return [line.split()[1] for line in (self.folder / "acts").read_text().splitlines()]


@contextmanager
def agent_of(shop: Shop, *answers: Any, keep_alive: bool = False, **more: Any) -> Iterator[tuple[App, Script]]:
    """Yield an app whose agent has the server's tools."""
    script = Script(*answers)
    app = App()
    app.agent("keeper", Agent(script, toolsets=[shop.toolset(keep_alive=keep_alive)]), **more)
    yield app, script


def outcomes(script: Script) -> list[tuple[str, str]]:
    """Return what the model was told of each call: the tool, and the outcome or the first word."""
    return [(tool, f"{outcome} {str(content).split()[0]}") for tool, content, outcome in results(script)]
