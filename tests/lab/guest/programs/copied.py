"""An app whose program stands at four places until the test lets it go on: `look`, `gate`, `effect` and `acted`."""

from __future__ import annotations

import asyncio
import os
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from torpor import App, Context, EffectContext
from torpor.worker.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.core.effect import Gate as Verdict
    from torpor.core.effect import Safety
    from torpor.worker.roles import Executor

DOORS = os.environ["LAB_DOORS"]
NAME = Path("/run/machine")
"""Which copy this is: the host writes it after a wake."""

app = App()
_ask = Gate.ask


def stand(place: str) -> None:
    """Block until the test opens this door for this machine."""
    while True:
        try:
            with urllib.request.urlopen(f"{DOORS}/at/{place}/{NAME.read_text()}", timeout=2.0) as answer:  # noqa: S310 - ours
                if answer.read() == b"go":
                    return
        except OSError:  # a connection of another life
            pass
        threading.Event().wait(0.05)


def act(key: str) -> None:
    """Act once, where it is counted."""
    asked = urllib.request.Request(f"{DOORS}/act/{NAME.read_text()}/{key}", method="POST")  # noqa: S310 - ours
    with urllib.request.urlopen(asked, timeout=30.0) as answer:  # noqa: S310 - ours
        answer.read()


def _stand_at_gate(gate: Gate, executor: Executor, safety: Safety, answer: Callable[[Verdict], None]) -> None:
    stand("gate")  # the answer to the intent was read, nothing was looked at since
    _ask(gate, executor, safety, answer)


setattr(Gate, "ask", _stand_at_gate)  # noqa: B010 - mypy has no word for a method put in another's place


@app.step
async def look() -> str:
    """Read something, for as long as the test wants."""
    await asyncio.to_thread(stand, "look")
    return "seen"


async def _act(ctx: EffectContext) -> str:
    await asyncio.to_thread(stand, "effect")
    await asyncio.to_thread(act, ctx.key)
    await asyncio.to_thread(stand, "acted")
    return ctx.key


@app.effect
async def charge(ctx: EffectContext) -> str:
    """Act where nobody can look it up."""
    return await _act(ctx)


@app.effect(safety="keyed")
async def pay(ctx: EffectContext) -> str:
    """Act where the far side knows the key."""
    return await _act(ctx)


@app.flow
async def copies(ctx: Context, safety: str) -> str:
    """Look, then act."""
    await ctx.step(look)
    return await ctx.effect(charge if safety == "once" else pay)
