"""The worker processes of a trial, and whoever starts them again: what a service manager does on a host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.program import OUTSIDE
from tests.faults.stepped import OFFSET
from torpor import clock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.faults.history import History
    from tests.faults.network import Host
    from tests.faults.places import Place

ROOT = Path(__file__).resolve().parents[2]
AGAIN_SECONDS = 0.3
"""So long after its end a worker is started again."""
NOTICED = ("Traceback", "AssertionError", "the committer failed", "beside the executors failed")
"""What a worker's log must not say, whatever happens to it."""


class Member:
    """One place in the crew: a worker process, and the ones before it."""

    def __init__(self, name: str, lease_seconds: float, host: Host, folder: Path) -> None:
        """Know how it is started, and where its log and the step of its clock are written."""
        self.name, self.lease_seconds, self.host = name, lease_seconds, host
        self.log, self.offset = folder / f"{name}.log", folder / f"{name}.offset"
        self.process: subprocess.Popen[bytes] | None = None
        self.frozen = False
        self.ended_at = 0.0
        self.offset.write_bytes(bytes(8))

    @property
    def alive(self) -> bool:
        """Whether its process is there, running or stopped."""
        return self.process is not None and self.process.poll() is None


class Crew:
    """All worker processes."""

    def __init__(self, place: Place, outside_port: int, history: History) -> None:
        """Begin with nobody."""
        self._place, self._port, self._history = place, outside_port, history
        self.members: list[Member] = []

    def hire(self, members: Iterable[Member]) -> None:
        """Start workers."""
        for member in members:
            self.members.append(member)
            self._start(member)

    def _start(self, member: Member) -> None:
        url = self._place.url(member.host.server)
        worker = ["worker", "tests.faults.program", "--store", url, "--name", member.name]
        command = [*member.host.prefix, sys.executable, "-m", "tests.faults.stepped", *worker]
        env = {
            **os.environ,
            "TMPDIR": str(member.host.folder),
            OUTSIDE: f"{member.host.outside}:{self._port}",
            OFFSET: str(member.offset),
            "TORPOR_DRAIN_SECONDS": "10",
        }
        with member.log.open("ab") as log:
            member.process = subprocess.Popen(
                [*command, "--lease-seconds", str(member.lease_seconds)],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        member.frozen = False

    def look(self) -> None:
        """Take note of workers that ended, and start them again after a moment."""
        now = clock.monotonic()
        for member in self.members:
            if member.process is not None and member.process.poll() is not None:
                self._history.add("left", worker=member.name, code=member.process.returncode)
                member.process, member.ended_at, member.frozen = None, now, False
            if member.process is None and now - member.ended_at > AGAIN_SECONDS:
                self._start(member)

    def kill(self, member: Member) -> None:
        """SIGKILL."""
        self._send(member, signal.SIGKILL)

    def drain(self, member: Member) -> None:
        """SIGTERM."""
        self._send(member, signal.SIGTERM)

    def freeze(self, member: Member) -> None:
        """SIGSTOP, wherever it is: also while it keeps everybody from writing."""
        self._send(member, signal.SIGSTOP)
        member.frozen = True

    def thaw(self, member: Member) -> None:
        """SIGCONT."""
        self._send(member, signal.SIGCONT)
        member.frozen = False

    def _send(self, member: Member, number: int) -> None:
        if member.process is not None and member.process.poll() is None:
            os.kill(member.process.pid, number)

    def dismiss(self) -> None:
        """SIGKILL everybody; nobody is started again."""
        for member in self.members:
            self.kill(member)
            if member.process is not None:
                member.process.wait()
                member.process = None

    def noticed(self) -> list[str]:
        """Return the log lines that no fault excuses."""
        return [
            f"{member.name}: {line}"
            for member in self.members
            for line in member.log.read_text("utf-8", "replace").splitlines()
            if any(words in line for words in NOTICED)
        ]
