"""Real servers in threads: HTTP by the standard library, and enough of Redis."""

from __future__ import annotations

import http.server
import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer, and keep the connection."""
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Redis(socketserver.StreamRequestHandler):
    ANSWERS = {b"PING": b"+PONG\r\n", b"GET": b"$2\r\nok\r\n"}  # noqa: RUF012 - never changed

    def handle(self) -> None:
        """Read arrays of bulk strings until the client is gone."""
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2])
            self.wfile.write(self.ANSWERS.get(words[0].upper(), b"-ERR unknown command\r\n"))


class _Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """A client that is gone is what these tests are about."""


@contextmanager
def _serving(kind: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    with _Threads(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


@contextmanager
def http_peer() -> Iterator[int]:
    """A port that answers `GET` with `ok` and keeps its connections."""
    with _serving(_Http) as port:
        yield port


@contextmanager
def redis_peer() -> Iterator[int]:
    """A port that speaks enough of Redis for `GET`."""
    with _serving(_Redis) as port:
        yield port
