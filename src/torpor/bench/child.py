"""A worker in a process of its own, started by a measurement: `python -m torpor.bench.child (hold|go) URL FOLDER`.

`hold` stays where a flow says it may be killed, `go` goes on. It says `loaded` when every library is, `ready` when it
claims, `awake` for each run that it takes up, `left` for each that it puts away or ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torpor.bench.places import of_url
from torpor.bench.programs import app, stand
from torpor.bench.telling import say
from torpor.runtime import Process, opened

if TYPE_CHECKING:
    from torpor.core.run import State
    from torpor.worker.roles import Executor


async def work(url: str) -> None:
    """Work on a store until killed or told to stop."""
    async with opened(url) as store:
        process = Process(store, app)
        process.worker.on_event = _tell
        working = asyncio.create_task(process.run(signals=True))
        ready = asyncio.create_task(process.worker.ready.wait())
        await asyncio.wait([working, ready], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
        else:
            say("ready")
        await working


def _tell(event: str, executor: Executor, state: State) -> None:
    say(event, run=executor.name, state=state.word)


def main() -> None:
    """Do what the command line says."""
    role, url, folder = sys.argv[1:]
    stand.holds = role == "hold"
    of_url(url, Path(folder)).load_driver()
    say("loaded")
    asyncio.run(work(url))


if __name__ == "__main__":
    main()
