"""What a worker of the simulation has in the place of its threads: everything happens in the one thread there is."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.process import SECOND
from torpor.worker.renewals import Renewals
from torpor.worker.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable


class Here(Threads):
    """Runs what would run in a thread."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        """Run it now."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **more))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the result
            future.set_exception(error)
        return future


class Renewing(Renewals):
    """The renewals of a process without threads: a beat of the schedule."""

    def start(self) -> None:
        """Begin to beat."""
        process: Any = asyncio.get_running_loop()
        process.renewals = self
        if process.follows is None:
            wind(process)

    def stop(self) -> None:
        """Beat no more."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """Whether it beats no more."""
        return self._stop.is_set()


def wind(process: Any) -> None:
    """Let the renewals of a process beat when they are due."""
    pause = process.enter(process.renewals.pause)
    process.machines.schedule.after(int(pause * SECOND) + 1, partial(process.when_awake, partial(_beat, process)))


def _beat(process: Any) -> None:
    if process.renewals.stopped or process.dead:
        return
    for one in process.both():
        one.enter(one.renewals.beat)
    wind(process)
