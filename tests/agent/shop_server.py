"""An MCP server for the tests: each act is a line in a file, and it dies in a call when it is told to.

`python -m tests.agent.shop_server FOLDER [PORT]`: over stdio, or over streamable HTTP. In FOLDER `acts` holds what was done; a
file `die-TOOL` lets the server end in the next call of that tool, after it has acted, once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
server = MCPServer("shop")


def act(tool: str) -> str:
    """Do it, and perhaps die of it."""
    with (FOLDER / "acts").open("a") as file:
        file.write(f"{tool} {os.getpid()}\n")
    deadly = FOLDER / f"die-{tool}"
    if deadly.exists():
        deadly.unlink()
        os._exit(3)
    return f"{tool} by {os.getpid()}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    """Look around."""
    return act("look")


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def tidy() -> str:
    """Tidy up."""
    return act("tidy")


@server.tool()
def buy() -> str:
    """Buy something."""
    return act("buy")


@server.tool()
def refuse() -> str:
    """Refuse, as a server does."""
    act("refuse")
    raise ToolError("we are closed")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
