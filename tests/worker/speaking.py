"""Flows that speak, and what the tests of streams look at."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from tests.worker.counter import COUNTER
from torpor import App, Context, EffectContext
from torpor.client import Client, Kept, Part
from torpor.core.ids import parse_run
from torpor.errors import NotDone

if TYPE_CHECKING:
    from torpor.testing import Lab

app = App()
GATES: dict[str, asyncio.Event] = {}
LATE: list[threading.Thread] = []


@app.step(retries=3)
async def write(ctx: EffectContext, text: str) -> str:
    """Emit a text letter by letter; the first attempt breaks in the middle."""
    for n, letter in enumerate(text):
        if ctx.attempt == 1 and n == len(text) // 2:
            COUNTER.act("broke")
            raise ConnectionError("the provider hung up")
        ctx.emit(letter)
    return text


@app.effect(safety="keyed")
async def publish(ctx: EffectContext, text: str) -> str:
    """Emit while acting."""
    ctx.emit(text)
    return text


@app.step
def in_thread(ctx: EffectContext, text: str) -> str:
    """Emit from a thread, letter by letter, and a value."""
    for letter in text:
        ctx.emit(letter)
    ctx.emit({"letters": len(text)})
    return text


@app.flow
async def tells(ctx: Context, text: str) -> str:
    """Emit in the flow and in each kind of call, over two turns."""
    if text.startswith("again "):
        ctx.emit("second turn: ")
        return f"first turn: ({text}) second turn: " + await ctx.step(in_thread, "thread")
    ctx.emit("first turn: ")
    ctx.emit("(again ")
    said = await ctx.step(write, "letters")
    said += await ctx.effect(publish, " and effects")
    ctx.emit(") ")
    return ctx.again(f"again {said}")  # type: ignore[return-value]


async def gate(name: str) -> None:
    """Say that the code is here, and wait for the test."""
    GATES[name].set()
    await GATES[f"{name} on"].wait()


@app.step(retries=1)
async def waits(ctx: EffectContext, fails: bool) -> str:  # noqa: FBT001 - a step's argument
    """Emit, wait for the test, and perhaps fail."""
    ctx.emit(f"attempt {ctx.attempt}")
    if ctx.attempt == 1:
        await gate("said")
        if fails:
            raise OSError("no")
    return f"attempt {ctx.attempt}"


@app.flow
async def one(ctx: Context, fails: bool) -> str:  # noqa: FBT001 - a state
    """Run the step that waits."""
    return await ctx.step(waits, fails)


@app.flow
async def gives_up(ctx: Context) -> str:
    """Stop waiting for a step that speaks."""
    step = asyncio.ensure_future(ctx.step(waits, fails=False))
    await ctx.receive("stop")
    step.cancel()
    ctx.emit("stopped")
    return str(await ctx.receive("end"))


@app.step
def speaks_late(ctx: EffectContext) -> str:
    """Leave somebody behind who emits after the end."""
    ctx.emit("in time")
    LATE.append(threading.Thread(target=ctx.emit, args=(" too late",)))
    return "in time"


@app.step
async def next_step() -> None:
    """Let the one that was left behind speak."""
    LATE[0].start()
    await asyncio.to_thread(LATE[0].join)


@app.flow
async def late(ctx: Context) -> str:
    """Run both."""
    said = await ctx.step(speaks_late)
    await ctx.step(next_step)
    return said


@app.effect(safety="transactional")
def inside(_db: Any, ctx: EffectContext) -> None:
    """Emit where nothing is true yet."""
    ctx.emit("no")


@app.step
async def refused(ctx: EffectContext) -> list[str]:
    """Emit what cannot be stored, or is too large."""
    found = []
    for part in (object(), b"x" * (1 << 20)):
        try:
            ctx.emit(part)
        except Exception as error:  # noqa: BLE001 - its kind is the result
            found.append(type(error).__name__)
    return found


@app.flow
async def refuses(ctx: Context) -> Any:
    """Ask for everything that is refused."""
    found = await ctx.step(refused)
    try:
        ctx.show(object())
    except Exception as error:  # noqa: BLE001 - its kind is the result
        found.append(type(error).__name__)
    return found


@app.step
async def whispers(ctx: EffectContext) -> None:
    """Emit a secret."""
    ctx.emit(f"it is {ctx.secret('door')}, ")
    ctx.emit([ctx.secret("door")])


@app.flow
async def secret(ctx: Context) -> None:
    """Emit and show a secret."""
    await ctx.step(whispers)
    ctx.emit(f"and {ctx.secret('door')}")
    ctx.show({"door": ctx.secret("door")})


@app.flow
async def shows(ctx: Context) -> str:
    """Show how far it is, suspended in between."""
    ctx.show({"at": "begin"})
    ctx.show({"at": "waiting"})
    await ctx.receive("go")
    ctx.show({"at": "holding"})
    await ctx.step(holds)
    ctx.show({"at": "end"})
    return "shown"


@app.step
async def holds() -> None:
    """Wait for the test."""
    await gate("said")


@app.effect(safety="keyed", retries=2)
async def undone(ctx: EffectContext) -> str:
    """Emit, and not do it the first time."""
    ctx.emit(f"try {ctx.attempt} ")
    if ctx.attempt == 1:
        raise NotDone("busy")
    return f"try {ctx.attempt} "


@app.flow
async def both(ctx: Context) -> str:
    """Two that speak at once, one of which breaks."""
    first, second = await asyncio.gather(ctx.step(write, "abcdef"), ctx.effect(undone))
    return "".join(sorted(first + second))


def fresh_gates() -> None:
    """Begin a test, or a second lab in one, with gates that nobody passed."""
    GATES.update({"said": asyncio.Event(), "said on": asyncio.Event()})
    LATE.clear()


async def parts(lab: Lab, run: object, after: int = 0) -> list[Part]:
    """Return what is in a run's stream now."""
    return [part async for part in Client(lab.store).stream(str(run), after, follow=False)]


def kept(found: list[Part]) -> str:
    """Return the text that a reader of these parts ends with."""
    reader = Kept()
    for part in found:
        reader.take(part.n, part.kind, part.body)
    return reader.text


async def check_numbers(lab: Lab, run: object) -> None:
    """Numbers begin at 1 and have no gap; nothing is loose once a run has ended."""
    found = await parts(lab, run)
    assert [part.n for part in found] == list(range(1, len(found) + 1))
    number = parse_run(str(run))[1]
    rows = await lab.store.transact(lambda tx: tx.streams([number]))
    assert rows[number].loose == ""


async def work(lab: Lab) -> asyncio.Task[None]:
    """Let the lab work beside the test."""
    return asyncio.ensure_future(lab.settle())
