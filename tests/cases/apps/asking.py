"""An app that asks a web server, with a client that keeps its connections and no limit of time."""

from __future__ import annotations

import os

import httpx

from torpor import App, Context, StepFailed

PEER = "TORPOR_TEST_PEER"
app = App()
_client = httpx.AsyncClient(timeout=None, trust_env=False)  # noqa: S113 - an author who trusts the other side


@app.step
async def asks() -> str:
    """Ask once; whatever goes wrong is not tried again."""
    return (await _client.get(os.environ[PEER])).text


@app.flow
async def asking(ctx: Context) -> str:
    """Return the answer, or what became of it."""
    try:
        return await ctx.step(asks)
    except StepFailed as failed:
        return failed.kind
