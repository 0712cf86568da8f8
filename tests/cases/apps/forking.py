"""An app whose step forks children and ends them, as a pool of processes does."""

from __future__ import annotations

import os
import signal

from tests.cases.telling import tell
from torpor import App, Context

app = App()


@app.step
def ends_a_child() -> int:
    """Fork a child, end it as a pool would, and return the signal that ended it."""
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    os.kill(child, signal.SIGTERM)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@app.step
def says() -> str:
    """Go on afterwards."""
    return str(tell("says"))


@app.flow
async def forks(ctx: Context) -> list[object]:
    """Do so, and go on."""
    return [await ctx.step(ends_a_child), await ctx.step(says)]
