"""An app whose every step and effect says to the test that it happens, and goes on when it is answered."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

from tests.cases import ahead
from tests.cases.telling import connected, tell, tell_softly
from torpor import App, Context, EffectContext, StepFailed
from torpor.core.retry import RetryPolicy
from torpor.worker.gate import Gate

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from torpor.core.effect import Gate as Verdict
    from torpor.core.effect import Safety
    from torpor.worker.roles import Executor

ahead.follow()
app = App()
_ask = Gate.ask


def _tell_at_gate(gate: Gate, executor: Executor, safety: Safety, answer: Callable[[Verdict], None]) -> None:
    tell("gate")  # the intent is durable, nothing was looked at since
    _ask(gate, executor, safety, answer)


setattr(Gate, "ask", _tell_at_gate)  # noqa: B010 - mypy has no word for a method put in another's place


@app.step
async def look() -> str:
    """Read something."""
    return str(await tell_softly("look"))


@app.effect
async def first(ctx: EffectContext) -> None:
    """Act before the others."""
    await tell_softly("first", key=ctx.key)


@app.effect
async def charge(ctx: EffectContext) -> Any:
    """Act where nobody can look it up."""
    return await tell_softly("act", key=ctx.key)


@app.effect(safety="keyed")
async def pay(ctx: EffectContext) -> Any:
    """Act where the far side knows the key."""
    return await tell_softly("act", key=ctx.key)


@app.flow
async def acts(ctx: Context, safety: str) -> Any:
    """Look, then act."""
    await ctx.step(look)
    return await ctx.effect(charge if safety == "once" else pay)


@app.flow
async def acts_twice(ctx: Context, safety: str) -> Any:
    """Act in one way, then in another; a failure is a result too."""
    await ctx.effect(first)
    try:
        return await ctx.effect(charge if safety == "once" else pay)
    except StepFailed as failed:
        return f"{failed.kind}: {failed.detail}"


# tools that keep a thread, or the worker's loop, for themselves


@app.effect
def blocks_thread(ctx: EffectContext) -> Any:
    """Block a thread."""
    return tell("act", key=ctx.key)


@app.effect
async def blocks_loop(ctx: EffectContext) -> Any:
    """Block the loop: a mistake that authors make."""
    return tell("act", key=ctx.key)


@app.effect
def burns_thread(ctx: EffectContext) -> int:
    """Compute in a thread until the test answers."""
    return _burn(ctx.key)


@app.effect
async def burns_loop(ctx: EffectContext) -> int:
    """Compute on the loop until the test answers."""
    return _burn(ctx.key)


def _burn(key: str) -> int:
    burnt = 0
    with connected("act", key=key) as line:
        while not _answered(line):
            burnt += sum(n * n for n in range(20_000)) % 7
    return burnt


def _answered(line: socket.socket) -> bool:
    return bool(select.select([line], [], [], 0)[0])


@app.flow
async def uses(ctx: Context, tool: str) -> Any:
    """Use one tool."""
    tools = {one.__name__: one for one in (blocks_thread, blocks_loop, burns_thread, burns_loop)}
    await ctx.effect(tools[tool])
    return tool


# waits


@app.step(timeout=1.0, retries=RetryPolicy(retries=50, first_seconds=0.01, most_seconds=0.01))
def reads_blocking() -> Any:
    """Read from somebody who may be dead, in a thread."""
    return tell("read")


@app.step(timeout=1.0)
async def reads() -> Any:
    """Read from somebody who may be dead, on the loop."""
    return await tell_softly("read")


@app.flow
async def naps(ctx: Context, seconds: float) -> str:
    """Sleep, then act."""
    await ctx.sleep(seconds)
    return str(await ctx.effect(charge))


@app.flow
async def reads_on(ctx: Context, step: str) -> Any:
    """Read with a timeout."""
    try:
        return await ctx.step(reads_blocking if step == "reads_blocking" else reads)
    except StepFailed as failed:
        return failed.kind
