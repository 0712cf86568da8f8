"""A worker process of the agent's demo: an ordinary worker and waker, with a death planned for it, or none."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, cast

from torpor.demo.agent.counted import Counted
from torpor.demo.agent.deaths import Death, Doomed, DoomedCalls, say
from torpor.demo.agent.errand import NAME
from torpor.demo.agent.program import maintenance
from torpor.runtime import Process, opened
from torpor.testing import Cassette
from torpor.testing.mortal import Place

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from torpor.core.run import State
    from torpor.demo.agent.errand import Errand
    from torpor.store.protocol import Store
    from torpor.worker.roles import Executor


def model_of(name: str) -> Model | str:
    """Return the model: the one that is named, or the tape. Raises UsageError."""
    if name:
        return name
    with as_file(files("torpor.demo.agent").joinpath("tape.jsonl")) as place:
        return Cassette(place, strict=False)  # another mcp-server-git may describe its tools in other words


async def work(errand: Errand) -> None:
    """Work until killed, or stopped by SIGTERM."""
    death = Death(Place(errand.place), errand.point, errand.what, errand.freeze, errand.who)
    model = Counted(model_of(errand.model), errand.asked)
    app = maintenance(NAME, errand.repository, model, errand.log)
    async with opened(errand.url, create=False) as store:
        doomed = cast("Store", Doomed(store, death))
        options: dict[str, Any] = {"name": errand.who, "lease_seconds": errand.lease_seconds}
        process = Process(doomed, app, tags=[errand.tag], only_tags=True, **options)
        process.worker.on_event = lambda event, executor, state: _tell(errand.who, event, executor, state)
        working = asyncio.create_task(process.run(signals=True))
        ready = asyncio.create_task(process.worker.ready.wait())
        await asyncio.wait([working, ready], return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            process.worker.calls = DoomedCalls(process.worker._threads, death)  # noqa: SLF001 - the same worker's
            say(event="ready", who=errand.who)
        ready.cancel()
        await working


def _tell(who: str, event: str, executor: Executor, state: State) -> None:
    say(event=event, who=who, run=executor.name, state=state.word)


def serve(errand: Errand) -> int:
    """Be that worker; return the process's exit code."""
    log = os.open(errand.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 2)
    os.close(log)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        asyncio.run(work(errand))
    except Exception:
        logging.getLogger("torpor.demo").exception("%s ended", errand.who)
        return 1
    return 0
