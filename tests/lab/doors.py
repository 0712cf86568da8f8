"""The world outside of guests: places where a program stands until the test lets it go on, and acts that are counted.

A guest asks over a connection of its own each time, so neither a copy nor a sleep of its machine leaves it hanging.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

from tests.lab.guests import HOST
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Act(NamedTuple):
    """Something was done."""

    machine: str
    key: str


class Doors:
    """`GET /at/PLACE/MACHINE` answers `go` once that door is open, and `POST /act/MACHINE/KEY` counts."""

    def __init__(self) -> None:
        """All are shut."""
        self.acts: list[Act] = []
        self.url = ""
        """Under which guests reach it."""
        self._news = threading.Condition()
        self._open: set[tuple[str, str]] = set()
        self._came: set[tuple[str, str]] = set()

    def open(self, place: str, machine: str) -> None:
        """Let a machine's program go on from a place."""
        with self._news:
            self._open.add((place, machine))

    def came(self, place: str, machine: str) -> None:
        """Wait until a machine's program stands at a place."""
        with self._news:
            assert self._news.wait_for(lambda: (place, machine) in self._came, PATIENCE_SECONDS), self._came

    def acted(self, key: str) -> None:
        """Wait until something was done under a key."""
        with self._news:
            came = self._news.wait_for(lambda: key in {act.key for act in self.acts}, PATIENCE_SECONDS)
            assert came, self.acts

    def at(self, place: str, machine: str) -> bool:
        """Note who came, and say whether it may go on."""
        with self._news:
            self._came.add((place, machine))
            self._news.notify_all()
            return (place, machine) in self._open

    def act(self, machine: str, key: str) -> None:
        """Count."""
        with self._news:
            self.acts.append(Act(machine, key))
            self._news.notify_all()


@contextmanager
def serving() -> Iterator[Doors]:
    """Serve on the loopback."""
    doors = Doors()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, place, machine = self.path.strip("/").split("/")
            self._say(b"go" if doors.at(place, machine) else b"wait")

        def do_POST(self) -> None:
            _, machine, key = self.path.strip("/").split("/")
            doors.act(machine, key)
            self._say(b"done")

        def _say(self, text: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            doors.url = f"http://{HOST}:{server.server_address[1]}"
            yield doors
        finally:
            server.shutdown()
            thread.join()
