"""The demo's processes: the counting service and the workers. Started, killed, frozen, thawed, and ended whatever happens.

What they say arrives as events, in order for each process. An event carries `who` said it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from torpor import clock
from torpor.demo.worker import STORE
from torpor.errors import TorporError
from torpor.store.sqlite import turnstile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torpor.demo.place import Place

COUNTER = "counter"
END_SECONDS = 5.0
"""How long a worker that was asked to end may take."""

Event = dict[str, Any]


@dataclass(slots=True)
class Member:
    """A process of the crew. `state` is its word for people: `idle`, `awake`, `killed`, `frozen`, `fenced`, `ended`."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    state: str = "idle"
    events: list[Event] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None


class Crew:
    """All processes of one demo, by name. Use as an asynchronous context: at its end none of them is left."""

    def __init__(self, place: Place) -> None:
        """Start nothing yet; logs go to the place's folder."""
        self.members: dict[str, Member] = {}
        self._place = place
        self._news = asyncio.Event()
        self._readers: list[asyncio.Task[None]] = []
        self._files = ExitStack()

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Kill whoever is left: a frozen process obeys nothing else."""
        for member in self.members.values():
            self._signal(member, signal.SIGKILL)
        for member in self.members.values():
            await member.process.wait()
        await asyncio.gather(*self._readers, return_exceptions=True)
        self._files.close()

    # starting

    async def start_counter(self) -> int:
        """Start the counting service and return the port it listens on."""
        await self._start(COUNTER, "torpor.demo.counter", str(self._place.counts), str(os.getpid()))
        listening = await self.event(lambda event: event["event"] == "listening")
        return int(listening["port"])

    async def start_worker(self, name: str, lease_seconds: float) -> None:
        """Start a worker; it says `ready` once it takes runs."""
        given = ("--name", name, "--lease-seconds", str(lease_seconds), "--parent", str(os.getpid()))
        await self._start(name, "torpor.demo.worker", *given)

    async def _start(self, name: str, module: str, *given: str) -> None:
        log = self._place.log_of(name)
        errors = self._files.enter_context(log.open("wb"))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the folder the demo is run in may hold a json.py
            *("-m", module, *given),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, STORE: self._place.url},
            start_new_session=True,  # Ctrl-C is for the demo, which then ends the others
        )
        member = self.members[name] = Member(name, process, log)
        self._readers.append(asyncio.create_task(self._read(member)))

    async def _read(self, member: Member) -> None:
        said = member.process.stdout
        while said is not None and (line := await said.readline()):
            with suppress(ValueError):
                self._heard(member, json.loads(line))
        await member.process.wait()
        if member.state not in {"killed", "ended"}:
            self._heard(member, {"event": "died", "code": member.process.returncode})

    def _heard(self, member: Member, event: Event) -> None:
        member.events.append({**event, "who": member.name})
        word = {"awake": "awake", "left": "idle", "lost": "fenced", "died": "died"}.get(event["event"])
        member.state = word or member.state
        self._news.set()

    # listening

    async def event(self, wanted: Callable[[Event], bool], *, seconds: float = 60.0) -> Event:
        """Return the first event that is wanted, of those that came and those to come.

        Raises TorporError if a process dies by itself meanwhile, TimeoutError.
        """
        async with asyncio.timeout(seconds):
            while True:
                self._news.clear()
                for member in self.members.values():
                    for event in member.events:
                        if wanted(event):
                            return event
                self._refuse_deaths()
                await self._news.wait()

    def _refuse_deaths(self) -> None:
        for member in self.members.values():
            if member.state == "died":
                last = member.log.read_text("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise TorporError(
                    f"{member.name} ended by itself (exit code {member.process.returncode}): {last[0]}",
                    hint=f"its log is {member.log}",
                )

    # doing things to them

    def by_pid(self, pid: int) -> Member:
        """Return the member with this process number. Raises TorporError: the run is held by somebody else."""
        for member in self.members.values():
            if member.process.pid == pid and member.alive:
                return member
        raise TorporError(f"process {pid} holds the run, and is none of this demo's", hint="give it a store of its own")

    def kill(self, member: Member) -> float:
        """SIGKILL a member; return when."""
        member.state = "killed"
        return self._signal(member, signal.SIGKILL)

    def freeze(self, member: Member) -> float:
        """SIGSTOP a member; return when."""
        at = clock.monotonic()
        member.state = "frozen"
        if member.alive:
            turnstile.freeze(member.process.pid, self._place.url.removeprefix("sqlite:///"))
        return at

    def thaw(self, member: Member) -> float:
        """SIGCONT a member; return when."""
        member.state = "thawed"
        return self._signal(member, signal.SIGCONT)

    def _signal(self, member: Member, number: signal.Signals) -> float:
        at = clock.monotonic()
        if member.alive:
            with suppress(ProcessLookupError):
                member.process.send_signal(number)
        return at

    async def dismiss(self) -> None:
        """Ask every worker to end and wait a little; whoever does not is killed at the end of the context."""
        leaving = [member for member in self.members.values() if member.alive and member.name != COUNTER]
        for member in leaving:
            member.state = "ended"
            self._signal(member, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await asyncio.gather(*(member.process.wait() for member in leaving))
