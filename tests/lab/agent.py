"""The host's end of the line to the agent in a guest, and to the programs that it started there."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from tests.lab.qmp import Line
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


class Agent:
    """What a test asks of a guest. One thread at a time."""

    def __init__(self, path: Path, qemu: subprocess.Popen[bytes]) -> None:
        """Connect."""
        self._line = Line(path, qemu)
        self._asked = time.monotonic_ns()  # a reply to another life of the guest has another number
        self._said: dict[int, deque[dict[str, Any]]] = {}

    def ready(self) -> float:
        """Wait until the agent of a booted guest speaks; how long after its start, in seconds."""
        return float(self._line.hear_until(lambda said: "ready" in said, PATIENCE_SECONDS)["ready"])

    def ask(self, op: str, **asked: Any) -> dict[str, Any]:
        """Ask the agent and return its reply.

        Raises:
            TimeoutError: it does not answer.
            RuntimeError: it could not do it.
        """
        self._asked += 1
        self._line.say({"id": self._asked, "op": op, **asked})
        until = time.monotonic() + PATIENCE_SECONDS
        while (said := self._line.hear(until)) is not None:
            if said.get("id") == self._asked:
                if "error" in said:
                    raise RuntimeError(f"{op} in the guest: {said['error']}")
                return said
            self._note(said)
        raise TimeoutError(f"the agent did not answer {op}")

    def event(self, program: int, seconds: float) -> dict[str, Any]:
        """Return the next thing that happened to a program.

        Raises:
            TimeoutError: nothing did for `seconds`.
        """
        until = time.monotonic() + seconds
        while not (events := self._said.setdefault(program, deque())):
            said = self._line.hear(until)
            if said is None:
                raise TimeoutError(f"program {program} said nothing for {seconds} s")
            self._note(said)
        return events.popleft()

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _note(self, said: dict[str, Any]) -> None:
        if "program" in said:
            self._said.setdefault(said["program"], deque()).append(said)


class Program:
    """A program in a guest, with which a test talks in lines."""

    def __init__(self, agent: Agent, number: int, pid: int) -> None:
        """Of `Machine.start` or `Machine.the`."""
        self._agent = agent
        self.number = number
        self.pid = pid
        self.errors: list[str] = []
        """What it wrote to its standard error, as far as it was heard."""

    def write(self, text: str) -> None:
        """Give it a line."""
        self._agent.ask("write", number=self.number, text=text)

    def line(self, seconds: float = PATIENCE_SECONDS) -> str:
        """Return the next line it prints.

        Raises:
            TimeoutError: it prints none for `seconds`.
            EOFError: it ended.
        """
        while True:
            event = self._agent.event(self.number, seconds)
            if "out" in event:
                return str(event["out"])
            if "status" in event:
                errors = "\n".join(self.errors)
                raise EOFError(f"it ended with {event['status']}\n{errors}")
            self.errors.append(event["err"])

    def ask(self, text: str, seconds: float = PATIENCE_SECONDS) -> Any:
        """Give it a line and return its answer, one line of JSON."""
        self.write(text)
        return json.loads(self.line(seconds))

    def error(self, containing: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait for a line on its standard error.

        Raises:
            TimeoutError: none came.
        """
        while True:
            for line in self.errors:
                if containing in line:
                    return line
            event = self._agent.event(self.number, seconds)
            if "err" in event:
                self.errors.append(event["err"])

    def kill(self, number: int) -> None:
        """Send it a signal."""
        self._agent.ask("kill", number=self.number, signal=number)
