"""The demo's side of the nest: start workers, hear what they say, freeze nobody twice, and leave none behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from torpor.errors import TorporError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torpor.demo.agent.errand import Errand

Event = dict[str, Any]


class Workers:
    """All workers of one demo. Use as an asynchronous context: at its end none of them is left."""

    def __init__(self, log: Path) -> None:
        """Start nothing yet; what the nest itself complains about goes to `log`."""
        self.events: list[Event] = []
        self.news = asyncio.Event()
        """Set whenever somebody said something."""
        self._log = log
        self._pids: dict[str, int] = {}
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start the nest."""
        with self._log.open("wb") as errors:
            self._nest = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the folder the demo is run in may hold a json.py
                *("-m", "torpor.demo.agent.nest", str(os.getpid())),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends the others
            )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Kill whoever is left."""
        for pid in self._pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self._nest.kill()
        await self._nest.wait()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        said = self._nest.stdout
        while said is not None and (line := await said.readline()):
            event = json.loads(line)
            if event["event"] == "started":
                self._pids[event["who"]] = event["pid"]
            elif event["event"] == "ended":
                self._pids.pop(event["who"], None)
            self.events.append(event)
            self.news.set()
        self.events.append({"event": "nest gone", "who": "", "at": 0.0})
        self.news.set()

    def start(self, errand: Errand) -> None:
        """Have a worker forked; it says `ready` once it takes runs."""
        assert self._nest.stdin is not None  # noqa: S101 - it was asked for
        self._nest.stdin.write((json.dumps(asdict(errand)) + "\n").encode())

    def of(self, who: str) -> list[Event]:
        """Return what one worker said, and what was said of it."""
        return [event for event in self.events if event.get("who") == who]

    def dead(self, who: str) -> bool:
        """Whether a worker has ended."""
        return any(event["event"] == "ended" for event in self.of(who))

    async def event(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the first event that is wanted, of those that came and those to come. Raises TorporError as `refuse`."""
        while True:
            self.news.clear()
            for event in self.events:
                if wanted(event):
                    return event
            self.refuse()
            await self.news.wait()

    async def ready(self, who: str) -> None:
        """Return once a worker takes runs."""
        await self.event(lambda event: event.get("who") == who and event["event"] == "ready")

    def refuse(self) -> None:
        """Raise TorporError if a worker, or the nest, ended that nobody killed."""
        for event in self.events:
            if event["event"] == "nest gone" or (
                event["event"] == "ended" and event["code"] not in {0, -signal.SIGKILL}
            ):
                name = event["who"] or "the process that forks workers"
                raise TorporError(f"{name} ended by itself", hint=f"its log is in {self._log.parent}")

    def signal(self, who: str, number: signal.Signals) -> None:
        """Send a worker a signal, if it lives."""
        with suppress(KeyError, ProcessLookupError):
            os.kill(self._pids[who], number)
