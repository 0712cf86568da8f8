"""The app of the trials: runs that do what their plan says. Workers load it as `tests.faults.program`.

Everything that counts happens outside: `TORPOR_FAULTS_OUTSIDE` is the address of the service that counts (`outside`).
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
from dataclasses import dataclass, field
from typing import Any

from torpor import App, Context, EffectContext, RetryPolicy, Rows, StepFailed
from torpor.sdk.steps import NOT_DONE, Answer, done

OUTSIDE = "TORPOR_FAULTS_OUTSIDE"
BOOK = "INSERT INTO faults_ledger (place) VALUES ('{place}')"  # a place is digits and slashes
PATIENT = RetryPolicy(retries=1_000, first_seconds=0.1, most_seconds=1.0)
ANSWER_SECONDS = 30.0
"""So long the world outside is waited for; it always answers sooner, unless this process was stopped."""

app = App()


def tell(kind: str, place: str, key: str = "", run: str = "") -> str:
    """Let it happen outside, and return the receipt. Blocks the thread."""
    return str(_ask("/act", {"kind": kind, "place": place, "key": key, "run": run})["receipt"])


def _ask(path: str, content: dict[str, Any]) -> dict[str, Any]:
    line = http.client.HTTPConnection(os.environ[OUTSIDE], timeout=ANSWER_SECONDS)
    try:
        line.request("POST", path, json.dumps(content))
        answer: dict[str, Any] = json.loads(line.getresponse().read())
        return answer
    finally:
        line.close()


async def tell_softly(kind: str, place: str, key: str = "", run: str = "") -> str:
    """Do the same on the worker's loop."""
    content = json.dumps({"kind": kind, "place": place, "key": key, "run": run}).encode()
    host, _, port = os.environ[OUTSIDE].partition(":")
    reader, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), ANSWER_SECONDS)
    try:
        writer.write(b"POST /act HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        answer = await asyncio.wait_for(reader.read(), ANSWER_SECONDS)
        return str(json.loads(answer.partition(b"\r\n\r\n")[2])["receipt"])
    finally:
        writer.close()


@app.step(retries=PATIENT)
async def look(ctx: EffectContext, place: str) -> str:
    """Look at something, as often as need be."""
    await tell_softly("step", place, run=ctx.run_id)
    return f"step {place}"


@app.effect
def once(ctx: EffectContext, place: str) -> str:
    """Do what nobody can do twice, in a thread."""
    tell("once", place, ctx.key, ctx.run_id)
    return f"once {place}"


@app.effect(safety="keyed", retries=PATIENT)
async def keyed(ctx: EffectContext, place: str) -> str:
    """Do what the far side knows by its key."""
    await tell_softly("keyed", place, ctx.key, ctx.run_id)
    return f"keyed {place}"


def was_done(key: str, place: str) -> Answer:
    """Look whether it happened."""
    return done(f"verify {place}") if _ask("/counted", {"key": key})["times"] else NOT_DONE


@app.effect(verify=was_done, retries=PATIENT)
async def verify(ctx: EffectContext, place: str) -> str:
    """Do what can be looked for."""
    await tell_softly("verify", place, ctx.key, ctx.run_id)
    return f"verify {place}"


@app.effect(safety="transactional", retries=PATIENT)  # stopped inside, it is over its two seconds: rolled back, again
def book(connection: Any, place: str) -> str:
    """Write into the author's own table, inside the commit."""
    connection.execute(BOOK.replace("{place}", place))
    return f"transactional {place}"


@dataclass
class Errand:
    """What a run has still to do, and what it has done."""

    place: str
    turns: list[Any]
    done: Rows[Any] = field(default_factory=Rows)


@app.flow
async def errand(ctx: Context, state: Errand) -> Any:
    """Do the next turn's acts side by side."""
    if not state.turns:
        return [one async for one in state.done]
    acts = state.turns.pop(0)
    values = await asyncio.gather(*(_perform(ctx, act) for act in acts))
    for act, value in zip(acts, values, strict=True):
        state.done.append([act["place"], act["kind"], value])
    return ctx.again(state)


async def _perform(ctx: Context, act: dict[str, Any]) -> Any:
    kind, place = act["kind"], act["place"]
    effects = {"once": once, "keyed": keyed, "verify": verify, "transactional": book}
    if kind in effects:
        try:
            return await ctx.effect(effects[kind], place)
        except StepFailed as failed:
            return f"failed: {failed.kind}: {failed.detail}"
    if kind == "step":
        return await ctx.step(look, place)
    if kind == "timer":
        due_at = round((asyncio.get_running_loop().time() + act["seconds"]) * 1e6)
        await ctx.sleep(act["seconds"])
        return due_at
    if kind == "hear":
        return [await _hear(ctx) for _ in range(act["count"])]
    if kind == "ask":
        return (await ctx.ask(place)).value
    if kind == "budget":
        async with ctx.budget.reserve("0.01") as held:
            await ctx.step(look, place)
            await held.settle("0.004")
        return f"budget {place}"
    return await ctx.join(await ctx.spawn("errand", Errand(place, act["turns"])))


async def _hear(ctx: Context) -> list[Any]:
    message = await ctx.receive("note", whole=True)
    return [message.sender, message.value]
