"""A script: watches as told by its first argument and does nothing else. Prints the share of a processor that each time took.

And how often a thread of it woke. `nothing` does not watch: a thread wakes at each tick and goes to sleep again, which is what
a machine takes for a wake.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import sys
import threading
import time

from torpor import rouse

TIMES = 4
SECONDS = 2.5
NEVER, _ = os.pipe()


class Used:
    """What the process has used until it was made; says what it used since."""

    def __init__(self) -> None:
        """Begin."""
        self._at, self._used, self._wakes = time.monotonic(), time.process_time(), wakes()

    def say(self) -> None:
        """One line."""
        seconds = time.monotonic() - self._at
        line = {"share": (time.process_time() - self._used) / seconds, "wakes": (wakes() - self._wakes) / seconds}
        os.write(1, (json.dumps(line) + "\n").encode())


def wakes() -> int:
    """How often a thread of the process went to sleep of its own will."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def in_a_thread() -> None:
    """`rouse.watch()`, at the usual tick."""
    watching = rouse.watch()
    idle()
    watching.stop()


def nothing() -> None:
    """A thread that only wakes, at the usual tick."""
    ended = threading.Lock()
    ended.acquire()
    threading.Thread(target=wake, args=(ended,), daemon=True).start()
    idle()
    ended.release()


def wake(ended: threading.Lock) -> None:
    """Wake at each tick until the end."""
    tick_seconds = rouse.Limits().tick_seconds
    while not ended.acquire(timeout=tick_seconds):
        pass


def idle() -> None:
    """Do nothing, some times."""
    for _ in range(TIMES):
        used = Used()
        select.select([NEVER], [], [], SECONDS)
        used.say()


async def in_a_loop() -> None:
    """`rouse.watching()`, at the usual tick."""
    never = asyncio.Event()
    async with rouse.watching():
        for _ in range(TIMES):
            used = Used()
            await asyncio.wait([asyncio.ensure_future(never.wait())], timeout=SECONDS)
            used.say()
        never.set()


if __name__ == "__main__":
    if sys.argv[1] == "loop":
        asyncio.run(in_a_loop())
    else:
        {"thread": in_a_thread, "nothing": nothing}[sys.argv[1]]()
