"""The other side of `child`: starts a worker process, hears what it says, kills it."""

from __future__ import annotations

import subprocess
import sys
import threading
from json import loads
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, Self

from torpor import clock
from torpor.bench.conditions import rss_mb
from torpor.client import Client
from torpor.engine import runs
from torpor.errors import TorporError
from torpor.runtime import opened

if TYPE_CHECKING:
    from types import TracebackType

    from torpor.bench.places import Place
    from torpor.sdk.app import App
    from torpor.store.protocol import Store

_STDERR_LETTERS = 2000
PATIENCE_SECONDS = 600.0


class Child:
    """A worker process. Leaving the context kills it, if it still lives."""

    def __init__(self, role: Literal["hold", "go"], place: Place) -> None:
        """Start it; `started_at` is the moment before, in microseconds of the host's clock."""
        self._errors = (place.folder / f"{role}.stderr").open("w+", encoding="utf-8")
        command = [sys.executable, "-m", "torpor.bench.child", role, place.url, str(place.folder)]
        self.started_at = clock.wall()
        self._process = subprocess.Popen(  # noqa: S603 - this Python, this module, and a URL that is one argument
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self._said: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self._said.put(loads(line))
        self._said.put(None)

    def heard(self, *events: str, within_seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Wait until it says one of these events, and return what it said; what it said before is dropped.

        Raises TorporError if it ends first, with the end of what it wrote on standard error, or says nothing for so long.
        """
        while True:
            try:
                said = self._said.get(timeout=within_seconds)
            except Empty:
                raise TorporError(f"a measured process did not say {events} within {within_seconds:g} s") from None
            if said is None:
                code = self._process.wait()
                self._errors.seek(0)
                wrote = self._errors.read()[-_STDERR_LETTERS:]
                raise TorporError(f"a measured process ended with {code} before {events}: {wrote}")
            if said["event"] in events:
                return said

    def rss_mb(self) -> float:
        """Return its resident memory in MiB."""
        return rss_mb(self._process.pid)

    def kill(self) -> int:
        """SIGKILL it and wait until it is gone. Return the moment of the signal, in microseconds of the host's clock."""
        at = clock.wall()
        self._process.kill()
        self._process.wait()
        self._listener.join()
        return at

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill it and close what belongs to it."""
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


async def make_known(store: Store, app: App) -> None:
    """Make an app's programs known to a store, as its first worker would."""
    named = [(flow.name, version, flow.source) for flow in app.flows.values() for version in flow.versions]
    await store.transact(runs.register, named)


async def start_run(place: Place, app: App, program: str, state: object) -> str:
    """Start a run on a store that no process works on, and return its public id."""
    async with opened(place.url) as store:
        await make_known(store, app)
        return (await Client(store).start(program, state)).run_id
