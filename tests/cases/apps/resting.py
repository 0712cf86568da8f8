"""An app whose effects take as long as the test wants, and that says when it was roused: for snapshots of a worker."""

from __future__ import annotations

from tests.cases.telling import tell, tell_softly
from torpor import App, Context, EffectContext, rouse

app = App()


@rouse.on_rousal(phase=rouse.Phase.RESEED)
def reseed(rousal: rouse.Rousal) -> None:
    """Say what happened."""
    tell("roused", kind=str(rousal.kind))


@app.effect
async def charge(ctx: EffectContext) -> str:
    """Act, and take as long as the test wants."""
    await tell_softly("act", key=ctx.key)
    return ctx.key


@app.step
async def look() -> str:
    """Read something, for as long as the test wants."""
    await tell_softly("look")
    return "seen"


@app.flow
async def acts(ctx: Context, times: int) -> int:
    """Act so many times."""
    for _ in range(times):
        await ctx.effect(charge)
    return times


@app.flow
async def looks(ctx: Context) -> str:
    """Look."""
    return await ctx.step(look)
