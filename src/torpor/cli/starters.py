"""What `torpor init` writes: a first flow, or a first agent with a test of it."""

from __future__ import annotations

HELLO = """from datetime import timedelta

from torpor import App, Context

app = App()


@app.flow
async def greet(ctx: Context, name: str) -> str:
    await ctx.sleep(timedelta(seconds=10))  # no process is needed meanwhile
    if await ctx.approval(f"Greet {name}?", expires=timedelta(days=7)):
        await ctx.effect(print, f"Good morning, {name}", safety="once")
    return name
"""

AGENT = '''import os

from pydantic_ai import Agent

from torpor import App
from torpor.testing import Script, call

app = App()
MODEL = os.environ.get("TORPOR_MODEL", "{model}")  # any of pydantic-ai's: openai:gpt-5-mini, anthropic:...
REHEARSAL = Script(  # what a model would say to "Please refund order 88121": no key, no network
    ["Let me see. ", call("look_up", order="88121")],
    call("refund", order="88121", dollars=40),
    "Your 40 dollars are on their way.",
)


@app.tool(safety="repeatable")
def look_up(order: str) -> str:
    """Return what is known about an order."""
    return f"order {{order}}: 40 dollars, paid"


@app.tool(safety="keyed", approve=True)
def refund(order: str, dollars: int) -> str:
    """Give money back for an order. A person approves it first."""
    return f"{{dollars}} dollars for order {{order}}"


desk = Agent(MODEL or REHEARSAL, instructions="You look after refunds of a bookshop.", tools=[look_up, refund])
support = app.agent("support", desk)
'''

TEST = """import asyncio

import pytest

from torpor.testing import Lab


def test_a_refund_waits_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORPOR_MODEL", "")  # rehearsed, so the test needs no key
    from agent import REHEARSAL, app, desk, support

    async def check() -> None:
        async with Lab(app) as lab:
            run = await lab.start(support, "Please refund order 88121")
            await lab.settle()
            (wait,) = await lab.waits(run)
            assert wait.title == "refund?"
            await lab.approve(run, by="ada", edits={"dollars": 20})
            assert await lab.result(run) == "Your 40 dollars are on their way."
            (refunded,) = await lab.effects(run)
            assert (refunded.name, refunded.state, refunded.intents) == ("refund", "done", 1)

    with desk.override(model=REHEARSAL):
        asyncio.run(check())
"""
