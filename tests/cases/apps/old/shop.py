"""A shop as it was deployed first."""

from __future__ import annotations

from typing import Any

from tests.cases.telling import tell_softly
from torpor import App, Context, EffectContext

app = App()


@app.effect(safety="keyed")
async def reserve(ctx: EffectContext, number: int) -> None:
    """Reserve."""
    await tell_softly("reserve", key=ctx.key, number=number)


@app.effect
async def charge(ctx: EffectContext, number: int) -> None:
    """Charge, which nobody can repeat."""
    await tell_softly("charge", key=ctx.key, number=number)


@app.effect(safety="keyed")
async def mail(ctx: EffectContext, text: str) -> None:
    """Send a mail."""
    await tell_softly("mail", key=ctx.key, text=text)


@app.flow
async def order(ctx: Context, state: dict[str, Any]) -> Any:
    """Reserve, wait until it is paid, charge, and once more."""
    await ctx.effect(reserve, state["number"])
    await ctx.receive("paid")
    await ctx.effect(charge, state["number"])
    if state["left"]:
        return ctx.again({"number": state["number"], "left": state["left"] - 1})
    return "old"


@app.flow
async def report(ctx: Context, number: int) -> str:
    """Mail, wait, and tell which code ended it."""
    await ctx.effect(mail, f"report {number}")
    await ctx.receive("read")
    return "old"
