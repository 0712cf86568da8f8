"""A family of runs, and a waker that can be killed half-way through a cascade.

The environment says which part a worker plays: `works` serves the family but follows nothing up, `cascades` serves
nothing of it and is killed in its third transaction of a cascade, `restarted` is an ordinary worker.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from tests.cases.telling import tell_softly
from torpor import App, Context, EffectContext, hours, waker
from torpor.engine import follow_ups

if TYPE_CHECKING:
    from torpor.engine.sweeps import Swept
    from torpor.store.protocol import Tx

ROLE = "TORPOR_CASES_ROLE"
ROUNDS = "TORPOR_CASES_ROUNDS"
"""How many transactions of a cascade are whole before its process is killed."""
_role = os.environ[ROLE]
_whole_rounds = int(os.environ.get(ROUNDS, "2"))
app = App()


@app.step
async def tool() -> Any:
    """Work until the test answers."""
    return await tell_softly("tool")


@app.effect
async def charge(ctx: EffectContext) -> Any:
    """Act."""
    return await tell_softly("act", key=ctx.key)


async def asks(ctx: Context) -> bool:
    """Wait for an approval."""
    return bool(await ctx.approval("Act?"))


async def middle(ctx: Context) -> Any:
    """Have a child that waits for an approval, one of the parent's grandchildren."""
    return await ctx.join(await ctx.spawn("asks"))


async def naps(ctx: Context) -> Any:
    """Sleep for an hour, then act."""
    await ctx.sleep(hours(1))
    return await ctx.effect(charge)


async def uses(ctx: Context) -> Any:
    """Use a tool, then try to start a child, then act."""
    await ctx.step(tool)
    await ctx.spawn("asks")
    return await ctx.effect(charge)


async def queued(ctx: Context) -> Any:
    """Act; nobody serves it at first."""
    return await ctx.effect(charge)


async def parent(ctx: Context) -> Any:
    """Have a family, one of which is independent, and wait for it."""
    free = await ctx.spawn("middle", independent=True)
    family = [await ctx.spawn(name) for name in ("naps", "middle", "queued", "uses")]
    await ctx.join_all([free, *family])


async def idle(ctx: Context) -> None:
    """Do nothing."""
    ctx.now()


_served = {
    "works": (asks, middle, naps, uses, parent),
    "cascades": (idle,),
    "restarted": (asks, middle, naps, uses, parent, queued),
}
for flow in _served[_role]:
    app.flow(flow)


_rounds: list[Swept] = []


def _killed_half_way(tx: Tx) -> Swept:
    """See to the independent child, cancel one, and be killed with another one cancelled and nothing of it committed."""
    swept = follow_ups.settle(tx, limit=1)
    if swept.done:
        _rounds.append(swept)
    if len(_rounds) > _whole_rounds:
        os.kill(os.getpid(), signal.SIGKILL)
    return swept


if _role == "works":
    waker.SWEEPS = tuple(sweep for sweep in waker.SWEEPS if sweep.op is not follow_ups.settle)
if _role == "cascades":
    waker.SWEEPS = tuple(
        sweep._replace(op=_killed_half_way) if sweep.op is follow_ups.settle else sweep for sweep in waker.SWEEPS
    )
