"""The outside world of the demo: a service that counts what it is told, in a process of its own.

It knows nothing of torpor. It never forgets, merges or dedups: every publication is a line in its file before it is
answered, so what it counted is what really happened. It can be told to **hold** its answer to the n-th request of a
kind: the one who asked is then, for certain, between "it happened" and "I know that it happened".

    POST /publish {"key": K, "name": N}   count it; answers {"receipt": R}, the number of its line
    GET  /confirm/R                       how often the key of line R was counted
    GET  /counts                          everything: {key: {"name": N, "receipts": [R, ...]}}
    POST /hold {"publish": n}             hold the answer to the n-th publish (or confirm) request
    POST /release                         let every held answer go

It says what happens as JSON lines on its standard output: where it listens, what it holds.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from torpor.demo.tether import end_with

HELD_SECONDS = 120.0
"""Longest time an answer is held, should nobody let it go."""


class Counts:
    """What was counted, in order, with a line in a file for each."""

    def __init__(self, place: Path) -> None:
        """Begin a new file at `place`."""
        self._file = place.open("w", encoding="ascii")
        self._lines: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def add(self, key: str, name: str) -> int:
        """Count once more; return the receipt, from 1."""
        with self._lock:
            self._lines.append((key, name))
            receipt = len(self._lines)
            self._file.write(json.dumps({"receipt": receipt, "key": key, "name": name}) + "\n")
            self._file.flush()
            return receipt

    def how_often(self, receipt: int) -> int:
        """Return how often the key of a receipt was counted, 0 for a receipt that was never given."""
        with self._lock:
            if not 0 < receipt <= len(self._lines):
                return 0
            key = self._lines[receipt - 1][0]
            return sum(one == key for one, _ in self._lines)

    def all(self) -> dict[str, dict[str, Any]]:
        """Return the name and the receipts of each key."""
        found: dict[str, dict[str, Any]] = {}
        with self._lock:
            for receipt, (key, name) in enumerate(self._lines, start=1):
                found.setdefault(key, {"name": name, "receipts": []})["receipts"].append(receipt)
        return found


class Holds:
    """Which answers are held: the n-th of a kind, once."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._wanted: dict[str, int] = {}
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._free = threading.Event()

    def want(self, wanted: dict[str, int]) -> None:
        """Hold the n-th request of each kind."""
        with self._lock:
            self._wanted.update(wanted)

    def pass_by(self, kind: str, **more: Any) -> None:
        """Let a request of a kind go on, or keep it until it is released."""
        with self._lock:
            self._seen[kind] += 1
            number = self._seen[kind]
            held = self._wanted.get(kind) == number
            free = self._free
        if held:
            say(event="held", kind=kind, number=number, **more)
            free.wait(HELD_SECONDS)

    def release(self) -> None:
        """Let everything go that is held now."""
        with self._lock:
            self._free.set()
            self._free = threading.Event()


def say(**event: Any) -> None:
    """Write a line for whoever started this process."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class Server(ThreadingHTTPServer):
    """The service. It listens on this machine only, on a port of the system's choice."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, place: Path) -> None:
        """Listen, and begin a new file of counts at `place`."""
        super().__init__(("127.0.0.1", 0), _Asked)
        self.counts = Counts(place)
        self.holds = Holds()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent about an asker that went away: that is what happens to askers here."""


class _Asked(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a question."""
        if self.path == "/counts":
            self._answer(200, self.server.counts.all())
        elif self.path.startswith("/confirm/") and self.path[9:].isdecimal():
            receipt = int(self.path[9:])
            often = self.server.counts.how_often(receipt)
            self.server.holds.pass_by("confirm", receipt=receipt)
            self._answer(200, {"counted": often})
        else:
            self._answer(404, {"error": "unknown path"})

    def do_POST(self) -> None:
        """Take something."""
        given = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/publish":
            receipt = self.server.counts.add(str(given["key"]), str(given["name"]))
            self.server.holds.pass_by("publish", receipt=receipt, key=given["key"])
            self._answer(200, {"receipt": receipt})
        elif self.path == "/hold":
            self.server.holds.want(given)
            self._answer(200, {})
        elif self.path == "/release":
            self.server.holds.release()
            self._answer(200, {})
        else:
            self._answer(404, {"error": "unknown path"})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has where it is overridden
        """Write no log: the file of counts is the record."""


def main() -> None:
    """Serve until killed: `python -m torpor.demo.counter FILE PARENT`."""
    end_with(int(sys.argv[2]))
    with Server(Path(sys.argv[1])) as server:
        say(event="listening", port=server.server_address[1])
        server.serve_forever()


if __name__ == "__main__":
    main()
