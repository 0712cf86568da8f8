"""The shop after a change: orders got a new version and a way for their states; reports were changed with neither."""

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


@app.flow(version=2)
async def order(ctx: Context, state: dict[str, Any]) -> Any:
    """Do as before, with the state's new field."""
    await ctx.effect(reserve, state["number"])
    await ctx.receive("paid")
    await ctx.effect(charge, state["number"])
    if state["left"]:
        return ctx.again({**state, "left": state["left"] - 1})
    return f"new, in {state['currency']}"


@app.flow
async def report(ctx: Context, number: int) -> str:
    """Mail with another text: a run in the middle of its turn recorded the old one."""
    await ctx.effect(mail, f"Report no. {number}")
    await ctx.receive("read")
    return "new"


def with_currency(old: dict[str, Any]) -> dict[str, Any]:
    """Give an old state what the new code wants."""
    return {**old, "currency": "EUR"}


app.upcast(1, with_currency, flow="order")
