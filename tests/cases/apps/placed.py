"""An app whose process asks a beacon in torpor's store whether it is the copy that may go on."""

from __future__ import annotations

import os

from tests.cases.telling import tell_softly
from torpor import App, Context, EffectContext, rouse
from torpor.client.beacon import StoreBeacon

app = App()
place = rouse.Place(StoreBeacon(os.environ["BEACON"]), "placed")
place.take_over()
rouse.on_rousal(place.confirm)


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


@app.flow
async def works(ctx: Context) -> str:
    """Look, then act."""
    await ctx.step(look)
    return await ctx.effect(charge)
