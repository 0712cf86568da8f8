"""An app that waits: for consent, for messages, for answers from outside."""

from __future__ import annotations

from typing import Any

from tests.cases import ahead
from tests.cases.telling import tell_softly
from torpor import App, Context, EffectContext

ahead.follow()
app = App()


@app.effect(safety="keyed")
async def act(ctx: EffectContext, what: str) -> None:
    """Act on consent."""
    await tell_softly("act", key=ctx.key, what=what)


@app.effect(safety="keyed")
async def hand_out(ctx: EffectContext, token: str) -> None:
    """Give a token to whoever will answer."""
    await tell_softly("token", key=ctx.key, token=token)


@app.flow
async def consents(ctx: Context, what: str) -> Any:
    """Act if it is approved."""
    answer = await ctx.approval(f"act on {what}?", show={"what": what})
    if answer:
        await ctx.effect(act, answer.value["what"])
    return [answer.approved, answer.by]


@app.flow
async def consents_then_hears(ctx: Context, seconds: float | None) -> Any:
    """Ask for X, then hear what else is wanted, twice."""
    answer = await ctx.approval("X?", show="X", expires=seconds)
    if answer:
        await ctx.effect(act, answer.value)
    said = "expired" if answer.expired else answer.approved
    return [said, await ctx.receive("also"), await ctx.receive("also")]


@app.flow
async def calls_back(ctx: Context) -> Any:
    """Wait for one answer from outside, and then for a second one of the same kind."""
    found = []
    for number in range(2):
        callback = ctx.callback("the far side is done")
        await ctx.effect(hand_out, callback.token)
        found.append(await callback)
        await ctx.effect(act, f"moved {number}")
    return found
