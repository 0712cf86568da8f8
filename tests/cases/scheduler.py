"""A scheduler in a process of its own: for each line on standard input it does what is due, and says so.

python -m tests.cases.scheduler URL CLOCK_FILE
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from torpor.store.opening import open_store
from torpor.waker import Waker


async def serve(url: str, clock_file: str) -> None:
    """Sweep when told, until the input ends. On a server the clock is the database's, and the file is not read."""
    store = open_store(url, create=False, clock=lambda: int(Path(clock_file).read_text("ascii")))
    try:
        while await asyncio.to_thread(sys.stdin.readline):
            waker = Waker(store)  # a fresh one looks at everything
            while await waker.sweep():
                pass
            sys.stdout.write("done\n")
            sys.stdout.flush()
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
