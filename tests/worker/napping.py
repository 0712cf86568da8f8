"""A program for a worker process: it sleeps, waits to be told, and says where it is, so that it can be killed there."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from torpor import App, Context

app = App()
HANGS = "TORPOR_TEST_HANGS"


@app.step
async def look() -> int:
    """Say that it is here; in a process that is to be killed stay here."""
    os.write(1, b"looks\n")
    if os.environ.get(HANGS):
        await asyncio.Event().wait()
    return 7


@app.flow
async def looks(ctx: Context) -> Any:
    """Take a step in which a process dies."""
    return await ctx.step(look)


@app.flow
async def naps(ctx: Context) -> Any:
    """Sleep, look, wait for a message, sleep again."""
    await ctx.sleep(0.05)
    await ctx.step(look)
    said = await ctx.receive("go")
    await ctx.sleep(0.05)
    return said
