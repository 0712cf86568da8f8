"""A script: watches as told by its first argument, does nothing else, and prints the share of a processor each time took."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
import time

from torpor import rouse

TIMES = 4
SECONDS = 2.5
NEVER, _ = os.pipe()


def say(began: float, used: float) -> None:
    """One line."""
    os.write(1, (json.dumps({"share": (time.process_time() - used) / (time.monotonic() - began)}) + "\n").encode())


def in_a_thread() -> None:
    """`rouse.watch()`, at the usual tick."""
    watching = rouse.watch()
    for _ in range(TIMES):
        began, used = time.monotonic(), time.process_time()
        select.select([NEVER], [], [], SECONDS)
        say(began, used)
    watching.stop()


async def in_a_loop() -> None:
    """`rouse.watching()`, at the usual tick."""
    never = asyncio.Event()
    async with rouse.watching():
        for _ in range(TIMES):
            began, used = time.monotonic(), time.process_time()
            await asyncio.wait([asyncio.ensure_future(never.wait())], timeout=SECONDS)
            say(began, used)
        never.set()


if __name__ == "__main__":
    if sys.argv[1] == "thread":
        in_a_thread()
    else:
        asyncio.run(in_a_loop())
