"""The flows that are measured. A step returns about 200 bytes of JSON and does nothing else: what remains is torpor."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torpor import Again, App, Context, clock
from torpor.bench.telling import say

app = App()

_PAD = "x" * 170
STAMPS: list[float] = []
"""When each call of `stamped_step` began, by the monotonic clock."""


class Stand:
    """How this process behaves when it comes to a place where it may be killed."""

    holds = False
    """Whether it stays there until it is killed."""


stand = Stand()


def payload(n: int) -> dict[str, Any]:
    """Return about 200 bytes of JSON."""
    return {"i": n, "ok": True, "data": _PAD}


@app.step
async def tiny(n: int) -> dict[str, Any]:
    """Return a payload."""
    return payload(n)


@app.step
async def stamped_step(n: int) -> dict[str, Any]:
    """Note the moment and return a payload."""
    STAMPS.append(clock.monotonic())
    return payload(n)


@app.flow
async def loop(ctx: Context, steps: int) -> int:
    """W1: steps one after another."""
    for n in range(steps):
        await ctx.step(tiny, n)
    return steps


@app.flow
async def stamped(ctx: Context, steps: int) -> int:
    """W4: the same, each step's beginning noted."""
    for n in range(steps):
        await ctx.step(stamped_step, n)
    return steps


@dataclass
class History:
    """How many steps are left before the frontier, and how many of them make a turn."""

    left: int
    every: int


@app.step
async def frontier() -> None:
    """Say that it was reached; in a process that is to be killed, stay."""
    say("frontier")
    if stand.holds:
        await asyncio.Event().wait()


@app.flow
async def history(ctx: Context, state: History) -> Again[History] | None:
    """W3: steps, then the frontier, in the last turn: at a full turn's end, the worst place to be taken up at."""
    for n in range(min(state.every, state.left)):
        await ctx.step(tiny, n)
    state.left -= state.every
    if state.left > 0:
        return ctx.again(state)
    await ctx.step(frontier)
    return None


@app.effect(safety="once")
def write_line(path: str) -> None:
    """W5: an effect that can be counted. It says that it has acted; in a process that is to be killed, it stays there."""
    with Path(path).open("a", encoding="ascii") as file:
        file.write("x\n")
        file.flush()
        os.fsync(file.fileno())
    say("acted")
    if stand.holds:
        threading.Event().wait()


@app.flow
async def act(ctx: Context, path: str) -> None:
    """W5: a step, then the effect."""
    await ctx.step(tiny, 0)
    await ctx.effect(write_line, path)


@app.step
async def woken(run: str) -> None:
    """Say that a run went on."""
    say("woken", run=run)


@app.flow
async def parked(ctx: Context, state: int) -> None:
    """W2: a step, then a message is waited for, then a step."""
    await ctx.step(tiny, state)
    await ctx.receive("go")
    await ctx.step(woken, ctx.run_id)


@app.flow
async def dozing(ctx: Context, due_at: int) -> None:
    """W2: a step, then a moment (microseconds) is waited for, then a step."""
    await ctx.step(tiny, 0)
    await ctx.until(clock.as_datetime(due_at))
    await ctx.step(woken, ctx.run_id)


KILOBYTE = 1024


@app.step
async def wide_step() -> str:
    """Return a kilobyte that does not compress, quotes of JSON included."""
    return secrets.token_hex(KILOBYTE // 2 - 1)


@app.flow
async def wide(ctx: Context, steps: int) -> None:
    """Steps of a kilobyte each: how much of what is stored is payload."""
    for _ in range(steps):
        await ctx.step(wide_step)
