"""An MCP server over streamable HTTP that gives out sessions, as servers of the older protocol do; it counts goodbyes."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

_TOOL = {"name": "buy", "inputSchema": {"type": "object", "properties": {}}}
_NO_SUCH_METHOD = -32601


class OldShop:
    """Listens while it is entered."""

    def __init__(self) -> None:
        """Open a port."""
        self.bought: list[str] = []
        """The sessions under which something was bought."""
        self.goodbyes: list[str] = []
        self.given = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Answering", (_Speaking,), {"shop": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/mcp"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, asked: dict[str, Any], under: str) -> Any:
        """Return the result of a request, None if there is no such method."""
        match asked["method"]:
            case "initialize":
                version = asked["params"]["protocolVersion"]
                return {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "", "version": ""},
                }
            case "tools/list":
                return {"tools": [_TOOL]}
            case "tools/call":
                self.bought.append(under)
                return {"content": [{"type": "text", "text": "bought"}]}
        return None


class _Speaking(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shop: OldShop

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of its parent
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer a request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        under = self.headers.get("mcp-session-id", "")
        if "id" not in asked:
            self._say(202, b"", under)
            return
        if asked["method"] == "initialize":
            self.shop.given += 1
            under = f"session {self.shop.given}"
        result = self.shop.answer(asked, under)
        no = {"error": {"code": _NO_SUCH_METHOD, "message": "no such method"}}
        said = {"jsonrpc": "2.0", "id": asked["id"], **(no if result is None else {"result": result})}
        self._say(200, json.dumps(said).encode(), under)

    def do_GET(self) -> None:
        """Offer no stream."""
        self._say(405, b"", "")

    def do_DELETE(self) -> None:
        """Hear a goodbye."""
        self.shop.goodbyes.append(self.headers.get("mcp-session-id", ""))
        self._say(200, b"", "")

    def _say(self, status: int, body: bytes, under: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if under:
            self.send_header("mcp-session-id", under)
        self.end_headers()
        self.wfile.write(body)
