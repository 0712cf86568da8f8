"""The outside world of a case: it counts what really happened, in a place that no crash of a worker reaches.

A process says something (`telling.tell`) and goes on when it is answered. Calls of a name that is held are answered by
the test, one by one: the caller is then for certain at that place, and nowhere else.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.patience import PATIENCE_SECONDS


@dataclass(slots=True)
class Call:
    """Something a process said, in the order of arrival. It stands still until it is answered."""

    name: str
    pid: int
    said: dict[str, Any]
    line: socket.socket
    answered: bool = False

    def answer(self, value: Any = None) -> None:
        """Let the caller go on. It may be gone."""
        self.answered = True
        with suppress(OSError), self.line:
            self.line.sendall(json.dumps(value).encode() + b"\n")


class Outside:
    """Listens on a port of its own until it is closed."""

    def __init__(self) -> None:
        """Listen; hold nothing."""
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self.calls: list[Call] = []
        self._held: set[str] = set()
        self._answers: dict[str, Any] = {}
        self._heard = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def hold(self, *names: str) -> None:
        """Let calls of these names wait for `Call.answer`."""
        with self._heard:
            self._held.update(names)

    def free(self, *names: str, value: Any = None) -> None:
        """Hold these names no more, and answer whoever waits and whoever comes."""
        with self._heard:
            self._held.difference_update(names)
            self._answers.update(dict.fromkeys(names, value))
            waiting = [call for call in self.calls if call.name in names and not call.answered]
        for call in waiting:
            call.answer(value)

    def next(self, name: str, number: int = 1, *, pid: int | None = None) -> Call:
        """Return the `number`-th call of a name (by a process), waiting for it."""
        with self._heard:
            came = self._heard.wait_for(lambda: len(self.all(name, pid)) >= number, PATIENCE_SECONDS)
            assert came, f"{name} was said {len(self.all(name, pid))} times, not {number}: {self.calls}"
            return self.all(name, pid)[number - 1]

    def all(self, name: str, pid: int | None = None) -> list[Call]:
        """Return the calls of a name so far, of one process or of all."""
        return [call for call in self.calls if call.name == name and pid in {None, call.pid}]

    def keys(self, name: str) -> set[str]:
        """Return the different keys of a name's calls: as often as it counts for a far side that knows them."""
        return {call.said["key"] for call in self.all(name)}

    def close(self) -> None:
        """Hang up on everybody."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join()
        for call in self.calls:
            call.line.close()

    def _listen(self) -> None:
        while True:
            try:
                line, _ = self._door.accept()
            except OSError:
                return
            with line.makefile("rb") as lines:
                first = lines.readline()
            if not first:
                line.close()  # it was stopped before it could speak
                continue
            said = json.loads(first)
            call = Call(said.pop("name"), said.pop("pid"), said, line)
            with self._heard:
                self.calls.append(call)
                held = call.name in self._held
                self._heard.notify_all()
            if not held:
                call.answer(self._answers.get(call.name))
