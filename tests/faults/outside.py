"""The service outside: it counts what really happened, over HTTP, in the process that no fault reaches.

    POST /act      {"kind", "place", "key", "run"}   counted and written down, then answered {"receipt": n}
    POST /counted  {"key"}                           how often that key was counted: {"times": n}

Requests are counted in the order in which they arrive, and answered a moment later, so that a fault finds many workers
between "it happened" and "I know that it happened".
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.history import History

ANSWER_AFTER_SECONDS = 0.02


class Outside:
    """Listens on a port of its own, on a thread of its own."""

    def __init__(self, history: History, host: str = "127.0.0.1") -> None:
        """Listen at an address of this machine."""
        self._history = history
        self._counted: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="outside")
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(host), self._loop).result()
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _listen(self, host: str) -> asyncio.Server:
        return await self._loop.create_server(lambda: _Asked(self), host, 0, backlog=1_000)

    def counted(self, key: str) -> int:
        """Return how often a key was counted, asking in line behind everything that has arrived."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60.0)
        try:
            line.request("POST", "/counted", json.dumps({"key": key}))
            return int(json.loads(line.getresponse().read())["times"])
        finally:
            line.close()

    def take(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        """Count what was asked."""
        if path == "/counted":
            return {"times": self._counted[content["key"]]}
        if content["key"]:
            self._counted[content["key"]] += 1
        self._history.add("call", **content)
        return {"receipt": self._history.count("call")}

    def close(self) -> None:
        """Hang up on everybody."""
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Asked(asyncio.Protocol):
    """One request on a connection of its own."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._read = b""
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Know where to answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, came: bytes) -> None:
        """Count as soon as the request is whole."""
        self._read += came
        head, end, body = self._read.partition(b"\r\n\r\n")
        lines = head.decode("ascii").split("\r\n")
        lengths = [int(line.partition(":")[2]) for line in lines if line.lower().startswith("content-length:")]
        if not end or len(body) < sum(lengths) or self._answered:
            return
        self._answered = True
        answer = json.dumps(self._outside.take(lines[0].split(" ")[1], json.loads(body))).encode()
        asyncio.get_running_loop().call_later(ANSWER_AFTER_SECONDS, self._answer, answer)

    def _answer(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer
            )
            self._transport.close()
