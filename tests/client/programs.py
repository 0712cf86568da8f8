"""Programs that the client's tests start."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor import App, EffectContext, days

if TYPE_CHECKING:
    from torpor import Context

app = App()


@dataclass
class Order:
    """An input with a class of its own."""

    number: int
    text: str


class Gate:
    """What a call waits for until a test opens it."""

    def __init__(self) -> None:
        """Begin closed."""
        self.reached: asyncio.Event
        self.opened: asyncio.Event
        self.close()

    def close(self) -> None:
        """Close again, for the next test and its loop."""
        self.reached, self.opened = asyncio.Event(), asyncio.Event()


GATE = Gate()


@app.step
async def scan(number: int) -> int:
    """Look."""
    if number == 13:
        message = "unlucky\nin two lines"
        raise ValueError(message)
    return number


@app.effect
async def refund(ctx: EffectContext, number: int, *, text: str) -> str:
    """Act once."""
    if text == "torn":
        message = "connection reset"
        raise OSError(message)
    return f"{ctx.run_id}:{number}"


@app.effect(safety="keyed")
async def slow(number: int) -> int:
    """Act until the test lets it end."""
    GATE.reached.set()
    await GATE.opened.wait()
    return number


@app.flow
async def double(ctx: Context, number: int) -> int:
    """Return twice the number."""
    return 2 * await ctx.step(scan, number)


@app.flow
async def echo(ctx: Context, value: Any) -> Any:
    """Return what came."""
    del ctx
    return value


@app.flow
async def order(ctx: Context, what: Order) -> str:
    """Act, hear a word, ask a person."""
    done = await ctx.effect(refund, what.number, text=what.text)
    word = await ctx.receive("go")
    answer = await ctx.approval(f"Send {what.number}?", show={"word": word, "done": done}, expires=days(1))
    return f"{answer.approved} {answer.by} {answer.note}".rstrip()


@app.flow
async def acting(ctx: Context, number: int) -> int:
    """Be in an effect for as long as the test wants."""
    return await ctx.effect(slow, number)


@app.flow
async def naps(ctx: Context, seconds: float) -> str:
    """Sleep."""
    await ctx.sleep(seconds)
    return "slept"


@app.flow(version=3)
async def turns(ctx: Context, left: int) -> Any:
    """Count down, a turn each."""
    await ctx.step(scan, left)
    return "done" if left == 0 else ctx.again(left - 1)


@app.flow
async def speak(ctx: Context, times: int) -> str:
    """Emit a text in so many parts, and return it."""
    said = [f"a{n}" for n in range(1, times + 1)]
    for one in said:
        ctx.emit(one)
        await ctx.sleep(1)
    return "".join(said)
