"""An app whose step emits what the test, as its provider, says piece by piece."""

from __future__ import annotations

from tests.cases.telling import tell_softly
from torpor import App, Context, EffectContext
from torpor.core.retry import RetryPolicy

app = App()


@app.step(retries=RetryPolicy(retries=5, first_seconds=0.01))
async def ask_model(ctx: EffectContext) -> str:
    """Stream an answer; the provider may hang up in the middle."""
    said = ""
    while (piece := await tell_softly("piece", attempt=ctx.attempt)) != "end":
        if piece is None:
            raise ConnectionError("the provider hung up")
        ctx.emit(piece)
        said += piece
    return said


@app.flow
async def answers(ctx: Context) -> str:
    """Answer, with a word of the flow's own before it."""
    ctx.emit("Answer: ")
    return "Answer: " + await ctx.step(ask_model)
