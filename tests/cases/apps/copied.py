"""The app of C01: its process copies itself, past the at-fork hooks, where the run's input says."""

from __future__ import annotations

import secrets
import uuid
from typing import TYPE_CHECKING

from tests.cases.telling import tell
from tests.rouse.copying import raw_clone
from torpor import App, Context, EffectContext, rouse
from torpor.worker.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.core.effect import Gate as Verdict
    from torpor.core.effect import Safety
    from torpor.worker.roles import Executor

app = App()
_to_come: list[str] = []
"""Where this process is to be copied; once. Only one run is ever started here."""
_ids: list[str] = []


def copy_at(place: str, ctx: Context | None = None) -> None:
    """Copy this process if this is the place: from here on there are two, equal in everything but their number."""
    if _to_come != [place]:
        return
    _to_come.clear()
    is_copy = raw_clone() == 0
    drawn = {"uuid": str(uuid.uuid4()), "token": secrets.randbits(62), "incarnation": rouse.incarnation()}
    if ctx is not None:
        _ids.append(str(ctx.uuid()))
        drawn["ctx_uuid"] = _ids[0]
    tell("copied", is_copy=is_copy, drawn=drawn)


_ask = Gate.ask


def _ask_in_two(gate: Gate, executor: Executor, safety: Safety, answer: Callable[[Verdict], None]) -> None:
    copy_at("gate")  # after the answer to the intent was read
    _ask(gate, executor, safety, answer)


setattr(Gate, "ask", _ask_in_two)  # noqa: B010 - mypy has no word for a method put in another's place


@app.step
async def look() -> str:
    """Read something, on the worker's loop."""
    tell("look")
    return "seen"


@app.effect
async def charge(ctx: EffectContext) -> str:
    """Act where nobody can look it up."""
    tell("act", key=ctx.key)
    copy_at("acted")
    return ctx.key


@app.effect(safety="keyed")
async def pay(ctx: EffectContext) -> str:
    """Act where the far side knows the key."""
    tell("act", key=ctx.key)
    copy_at("acted")
    return ctx.key


@app.flow
async def copies(ctx: Context, wanted: dict[str, str]) -> list[str]:
    """Look, then act; the process is copied on the way."""
    _to_come[:] = [wanted["place"]]
    await ctx.step(look)
    copy_at("flow", ctx)
    key = await ctx.effect(charge if wanted["safety"] == "once" else pay)
    return [key, *_ids]
