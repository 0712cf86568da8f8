"""A worker process of the demo: an ordinary worker and waker on the store, that says what happens to its runs.

JSON lines on standard output, each with `at`, in seconds of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from torpor import clock
from torpor.demo import program
from torpor.demo.tether import end_with
from torpor.runtime import Process, opened

if TYPE_CHECKING:
    from torpor.core.run import State
    from torpor.worker.roles import Executor


STORE = "TORPOR_DEMO_STORE"
"""The environment variable that holds the store's URL."""


class _Teller:
    """Says what happens, and which step is the first to really begin after a run was taken up."""

    def __init__(self) -> None:
        self._first = False

    def happened(self, event: str, executor: Executor, state: State) -> None:
        """Say that a run was taken up, put away or lost."""
        self._first = event == "awake"
        self.say(event=event, run=executor.name, epoch=executor.lease.epoch, state=state.word)

    def begins(self, what: str) -> None:
        """Say which step begins first."""
        if self._first:
            self._first = False
            self.say(event="begins", what=what)

    def say(self, **event: Any) -> None:
        """Write a line. Nobody may be listening any more."""
        with suppress(OSError):
            sys.stdout.write(json.dumps({**event, "at": clock.monotonic()}) + "\n")
            sys.stdout.flush()


async def _work(store_url: str, name: str, lease_seconds: float) -> None:
    teller = _Teller()
    program.noticed.append(teller.begins)
    async with opened(store_url, create=False) as store:
        process = Process(store, program.app, name=name, lease_seconds=lease_seconds)
        process.worker.on_event = teller.happened
        working = asyncio.create_task(process.run(signals=True))
        ready = asyncio.create_task(process.worker.ready.wait())
        await asyncio.wait([working, ready], return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            teller.say(event="ready")
        ready.cancel()
        await working


def main() -> None:
    """Work until stopped: `python -m torpor.demo.worker --name w1 --lease-seconds 5 --parent PID`.

    The store's URL comes in the environment: it may hold a password, which a command line would show to everybody.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--lease-seconds", type=float, required=True)
    parser.add_argument("--parent", type=int, required=True)
    given = parser.parse_args()
    end_with(given.parent)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    asyncio.run(_work(os.environ[STORE], given.name, given.lease_seconds))


if __name__ == "__main__":
    main()
