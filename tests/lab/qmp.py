"""Lines of JSON over a unix socket: to QEMU's monitor (QMP), and to the agent in a guest."""

from __future__ import annotations

import json
import select
import socket
import time
from typing import TYPE_CHECKING, Any

from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

_REST_SECONDS = 0.002


class Gone(ConnectionError):
    """The other end is not there any more."""


class Line:
    """A connection on which both ends say one JSON object a line."""

    def __init__(self, path: Path, qemu: subprocess.Popen[bytes]) -> None:
        """Connect, waiting until `qemu` listens.

        Raises:
            Gone: it ended instead.
        """
        self._socket = socket.socket(socket.AF_UNIX)
        self._rest = b""
        while True:
            try:
                self._socket.connect(str(path))
                break
            except OSError as error:
                if qemu.poll() is not None:
                    raise Gone(f"QEMU ended with {qemu.returncode} before it listened at {path.name}") from error
                select.select([], [], [], _REST_SECONDS)

    def say(self, said: dict[str, Any]) -> None:
        """Send one object."""
        self._socket.sendall(json.dumps(said).encode() + b"\n")

    def hear(self, until: float) -> dict[str, Any] | None:
        """Return the next object, or None at `until`, a time of `time.monotonic()`.

        Raises:
            Gone: the other end hung up.
        """
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                return None
            came = self._socket.recv(1 << 20)
            if not came:
                raise Gone("QEMU hung up")
            self._rest += came
        line, self._rest = self._rest.split(b"\n", 1)
        try:
            return dict(json.loads(line))
        except ValueError:  # the second half of what was said in another life of the guest
            return {}

    def hear_until(self, wanted: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Return the first object that is `wanted`, and forget those before it.

        Raises:
            TimeoutError: none came in time.
        """
        until = time.monotonic() + seconds
        while (said := self.hear(until)) is not None:
            if wanted(said):
                return said
        raise TimeoutError(f"nothing was heard for {seconds} s")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class Monitor:
    """QEMU's monitor."""

    def __init__(self, path: Path, qemu: subprocess.Popen[bytes]) -> None:
        """Connect and ask for migration events, which say when a state is saved or loaded."""
        self._line = Line(path, qemu)
        self._events: list[dict[str, Any]] = []
        self._line.hear_until(lambda said: "QMP" in said, PATIENCE_SECONDS)
        self.ask("qmp_capabilities")
        on = [{"capability": name, "state": True} for name in ("events", "x-ignore-shared")]
        self.ask("migrate-set-capabilities", capabilities=on)

    def ask(self, command: str, **arguments: Any) -> Any:
        """Carry out a command and return what it returns.

        Raises:
            RuntimeError: QEMU refuses.
        """
        self._line.say({"execute": command, "arguments": arguments})
        until = time.monotonic() + PATIENCE_SECONDS
        while (said := self._line.hear(until)) is not None:
            if "event" in said:
                self._events.append(said)
            elif "error" in said:
                raise RuntimeError(f"{command}: {said['error']['desc']}")
            elif "return" in said:
                return said["return"]
        raise TimeoutError(f"QEMU did not answer {command}")

    def migrated(self) -> None:
        """Wait until a state is saved or loaded.

        Raises:
            RuntimeError: it failed.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            while self._events:
                event = self._events.pop(0)
                status = event["data"].get("status") if event["event"] == "MIGRATION" else ""
                if status == "completed":
                    return
                if status in {"failed", "cancelled"}:
                    raise RuntimeError(f"the state was not saved or loaded: {self.ask('query-migrate')}")
            said = self._line.hear(until)
            if said is None:
                raise TimeoutError("a state was not saved or loaded in time")
            self._events.append(said)

    def close(self) -> None:
        """Hang up."""
        self._line.close()
