"""The app of C06 in a machine: a timer, a schedule, and a step that reads from somebody who will never answer."""

from __future__ import annotations

import os
import urllib.request

from torpor import App, Context, EffectContext, StepFailed, minutes

DOORS, SILENT = os.environ["LAB_DOORS"], os.environ["LAB_SILENT"]
READ_SECONDS = 3.0

app = App()


@app.effect(safety="keyed")
def act(ctx: EffectContext, what: str) -> None:
    """Do something that is counted outside."""
    del ctx
    asked = urllib.request.Request(f"{DOORS}/act/laptop/{what}", method="POST")  # noqa: S310 - ours
    with urllib.request.urlopen(asked, timeout=30.0) as answer:  # noqa: S310 - ours
        answer.read()


@app.step(timeout=READ_SECONDS, retries=0)
def read() -> str:
    """Ask somebody who never answers."""
    with urllib.request.urlopen(f"{SILENT}/never") as answer:  # noqa: S310 - ours
        return str(answer.read())


@app.flow
async def naps(ctx: Context) -> None:
    """Sleep for ten minutes, then act."""
    await ctx.effect(act, "sleeps")
    await ctx.sleep(minutes(10))
    await ctx.effect(act, "rang")


@app.flow
async def reads(ctx: Context) -> None:
    """Be inside a call when the lid is closed."""
    try:
        await ctx.step(read)
    except StepFailed:
        await ctx.effect(act, "ended")


@app.schedule("0 * * * *")
@app.flow
async def hourly(ctx: Context) -> None:
    """Act once an hour."""
    await ctx.effect(act, "hourly")
