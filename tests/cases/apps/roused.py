"""An app whose callback fails as long as the test says so, and whose steps speak on a connection that is kept."""

from __future__ import annotations

import os

import httpx

from tests.cases.telling import tell, tell_softly
from torpor import App, Context, EffectContext, rouse

app = App()
_client = httpx.AsyncClient()


@rouse.on_rousal(phase=rouse.Phase.AUTHORITY)
def may_go_on(rousal: rouse.Rousal) -> None:
    """Ask whether this copy may go on, as a beacon is asked."""
    answer = tell("roused", kind=str(rousal.kind))
    if answer is not None:
        raise PermissionError(answer)


@app.step
async def look() -> str:
    """Read something, for as long as the test wants."""
    await tell_softly("look")
    return "seen"


@app.effect
async def charge(ctx: EffectContext) -> str:
    """Act."""
    await tell_softly("act", key=ctx.key)
    return ctx.key


@app.step
async def port() -> int:
    """Return from which port this process speaks to the page whose address is given."""
    return int((await _client.get(os.environ["PAGE"])).text)


@app.flow
async def works(ctx: Context) -> str:
    """Look, then act."""
    await ctx.step(look)
    return await ctx.effect(charge)


@app.flow
async def asks(ctx: Context) -> int:
    """Ask the page once."""
    return await ctx.step(port)
