"""A script: watches as told by its first argument and reports each rousal as a line of JSON, until its input closes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict

from torpor import rouse

ORIGINAL = os.getpid()
TOLD = os.pipe()
"""A copy was told."""
LIMITS = rouse.Limits(tick_seconds=0.05, freeze_seconds=0.3)


def say(**line: object) -> None:
    """One line, at once, in one piece: a copy of the process writes to the same place."""
    os.write(1, (json.dumps(line) + "\n").encode())


@rouse.on_rousal(phase=rouse.Phase.OPEN_GATE)
def report(rousal: rouse.Rousal) -> None:
    """Tell the test."""
    say(pid=os.getpid(), now=rouse.incarnation(), **asdict(rousal))
    if os.getpid() != ORIGINAL:
        os.write(TOLD[1], b"!")


def in_a_thread() -> None:
    """`rouse.watch()`; a line of input `fork` makes a copy, which says its number and ends when it was told."""
    watching = rouse.watch(LIMITS)
    say(ready=os.getpid())
    for line in sys.stdin:
        if line == "fork\n":
            if os.fork() == 0:
                os.read(TOLD[0], 1)
                os._exit(0)
            os.wait()
    watching.stop()
    say(stopped=rouse.watch(LIMITS) is watching)
    watching.stop()


async def in_a_loop() -> None:
    """`rouse.watching()`; a line of input `block` blocks the loop for longer than the limit, by itself."""
    async with rouse.watching(LIMITS) as watcher:
        say(ready=os.getpid())
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[bytes]()
        loop.add_reader(0, lambda: lines.put_nowait(os.read(0, 4096)))
        while line := await lines.get():
            if line == b"block\n":
                end_at = loop.time() + 1.0
                while loop.time() < end_at:
                    pass
                say(blocked=watcher.check() is None)
        loop.remove_reader(0)
    say(stopped=True)


if __name__ == "__main__":
    if sys.argv[1] == "thread":
        in_a_thread()
    else:
        asyncio.run(in_a_loop())
