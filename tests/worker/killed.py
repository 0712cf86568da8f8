"""A worker that kills its own process at a planned point: `python -m tests.worker.killed URL COUNTER PLACE POINT`.

The app is also the test's: the counter is a file to which each act appends a line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from torpor import App, Context, EffectContext
from torpor.store.opening import open_store
from torpor.testing import Clock, Place
from torpor.testing.mortal import Plan
from torpor.testing.worker import LabWorker

app = App()
COUNTER: list[Path] = []


def act(what: str, key: str = "") -> None:
    """Let something really happen."""
    place = os.open(COUNTER[0], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(place, f"{what} {key}\n".encode())
    os.close(place)


@app.step
async def look() -> int:
    """Look."""
    act("look")
    return 1


@app.effect(safety="keyed")
async def pay(ctx: EffectContext) -> str:
    """Pay, with a key."""
    act("pay", ctx.key)
    return ctx.key


@app.effect
async def charge(ctx: EffectContext) -> str:
    """Charge, which nobody can repeat."""
    act("charge", ctx.key)
    return ctx.key


@app.flow
async def shop(ctx: Context) -> Any:
    """Look, pay, charge."""
    await ctx.step(look)
    return await ctx.effect(pay), await ctx.effect(charge)


async def main(url: str, place: Place, point: int) -> None:
    """Work until the planned kill."""
    store = open_store(url)
    plan = Plan(place, point)
    worker = LabWorker(store, app, Clock(), plan, lambda: os.kill(os.getpid(), signal.SIGKILL) if plan.what else None)
    worker.on_event = lambda *_: None
    await worker.begin()
    os.write(1, b"ready\n")
    await asyncio.Event().wait()


if __name__ == "__main__":
    COUNTER.append(Path(sys.argv[2]))
    asyncio.run(main(sys.argv[1], Place(sys.argv[3]), int(sys.argv[4])))
