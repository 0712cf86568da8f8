"""What the tests in guests have in common."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.lab.lab import PYTHON
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.agent import Program
    from tests.lab.machine import Machine

HOST = "10.0.2.2"
"""Under which a guest reaches our loopback."""
WORD = {"event": "generation 2", "kind": "copied", "away_seconds": 3.5}
KERNELS_LINE = "crng reseeded due to virtual machine fork"


def python(machine: Machine, name: str, *words: str) -> Program:
    """Start a program of ours in the guest, and wait until it is ready."""
    return ready(machine.start("/usr/bin/python3", f"/source/programs/{name}.py", *words, env=PYTHON))


def ready(program: Program) -> Program:
    """Wait until a program says that it is ready."""
    assert program.line() == '"ready"'
    return program


def equal(first: dict[str, Any], second: dict[str, Any]) -> set[str]:
    """Return the names under which both hold the same."""
    assert first.keys() == second.keys()
    return {name for name in first if first[name] == second[name]}


def kernel_knows(machine: Machine) -> None:
    """Wait until the guest's kernel knows that it is a copy: its driver runs some milliseconds after the wake."""
    machine.run("/bin/sh", "-c", f"until dmesg | grep -q '{KERNELS_LINE}'; do :; done")


class Silent:
    """A server of the host's that answers `/at-once`, and nothing else until it is let go."""

    def __init__(self, port: int) -> None:
        """Of `silent`."""
        self.port = port
        self.let_go = threading.Event()
        self.asked: list[str] = []
        self._news = threading.Condition()

    def note(self, path: str) -> None:
        """Somebody asks."""
        with self._news:
            self.asked.append(path)
            self._news.notify_all()

    def came(self, path: str) -> None:
        """Wait until somebody asks."""
        with self._news:
            assert self._news.wait_for(lambda: path in self.asked, PATIENCE_SECONDS), self.asked


@contextmanager
def silent() -> Iterator[Silent]:
    """Serve on the loopback."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.note(self.path)
            if self.path != "/at-once":
                server.let_go.wait(PATIENCE_SECONDS)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as door:
        server = Silent(int(door.server_address[1]))
        thread = threading.Thread(target=door.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.let_go.set()
            door.shutdown()
            thread.join()
