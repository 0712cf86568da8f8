"""The programs of the simulation: one flow that does what its script says, so that a seed can write any run.

A script is turns of acts, and what each act gives is known beforehand (`expected`), whatever happens to the workers. Where two
ends are possible (a signal races a timer) both are. The outside world is `OUTSIDE`: it outlives every worker.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zlib import crc32

from torpor import App, ChildFailed, Context, EffectContext, Interrupted, Rows, seconds
from torpor.core.retry import RetryPolicy
from torpor.sdk.steps import NOT_DONE, done

if TYPE_CHECKING:
    from tests.simulation.outside import Outside
    from torpor.sdk.steps import Answer

app = App()


class Where:
    """Where the outside world of the present simulation is."""

    outside: Outside


OUTSIDE = Where()
QUICKLY = RetryPolicy(retries=5, first_seconds=0.3, factor=1.5, most_seconds=2.0)
TABLE = "simulated_bookings"


@dataclass
class Act:
    """One thing that a run does; `inner` are done at the same time."""

    kind: str
    tag: str
    n: int = 0
    inner: list[Act] = field(default_factory=list)


@dataclass
class Script:
    """What a run does, turn by turn, and what it got so far."""

    label: str
    turns: list[list[Act]]
    got: Rows[list[Any]] = field(default_factory=Rows)
    number: int = 0


@dataclass(frozen=True)
class Worth:
    """A value with everything in it that must come back as it was (G14)."""

    amount: Decimal
    at: datetime
    raw: bytes
    some: tuple[int, ...]
    names: frozenset[str]


def worth(n: int) -> Worth:
    """Return the value that step `look` gives for a number."""
    at = datetime(2031, 1, 1, tzinfo=UTC) + timedelta(microseconds=n * 1_000_003)
    return Worth(Decimal(n) / Decimal(8), at, bytes([n % 256, 0, 255]), (n, -n), frozenset({f"ü{n}", "x"}))


def shaky(tag: str) -> int:
    """Return how many attempts of a step fail."""
    return (0, 0, 0, 1, 2)[crc32(tag.encode()) % 5]


def approves(tag: str) -> bool:
    """Say what operators decide about a tag: all of them the same."""
    return crc32(tag.encode()) % 3 != 0


@app.step(retries=QUICKLY)
async def look(ctx: EffectContext, tag: str, n: int) -> Worth:
    """Look something up; some of it fails at first."""
    await OUTSIDE.outside.act("step", ctx, tag)
    if ctx.attempt <= shaky(tag):
        raise ConnectionError(f"{tag} does not answer")
    return worth(n)


@app.step
def count(tag: str, n: int) -> int:
    """Count, in a thread."""
    return n * 2 + len(tag)


@app.step(retries=QUICKLY)
async def say(ctx: EffectContext, tag: str, n: int) -> str:
    """Emit some words; an attempt that fails has said half of them."""
    words = said(tag, n)
    for place, word in enumerate(words):
        ctx.emit(word)
        await OUTSIDE.outside.act("step", ctx, tag)
        if ctx.attempt <= shaky(tag) and place == len(words) // 2:
            raise ConnectionError("cut off")
    return "".join(words)


def said(tag: str, n: int) -> list[str]:
    """Return what step `say` emits."""
    return [f"<{tag}:{place}>" for place in range(1 + n % 3)]


@app.effect(safety="keyed", retries=QUICKLY)
async def pay(ctx: EffectContext, tag: str, n: int) -> str:
    """Pay; the far side knows keys."""
    return await OUTSIDE.outside.act("keyed", ctx, tag, n)


@app.effect
async def charge(ctx: EffectContext, tag: str, n: int) -> str:
    """Charge, which cannot be repeated."""
    return await OUTSIDE.outside.act("once", ctx, tag, n)


async def sent(key: str, tag: str, n: int) -> Answer:
    """Look whether a letter was sent."""
    del tag, n
    found = await OUTSIDE.outside.found(key)
    return done(found) if found is not None else NOT_DONE


@app.effect(verify=sent)
async def send(ctx: EffectContext, tag: str, n: int) -> str:
    """Send a letter, which can be looked for."""
    return await OUTSIDE.outside.act("verify", ctx, tag, n)


@app.effect(safety="transactional")
def book(connection: Any, tag: str, n: int) -> str:
    """Write into a table of one's own, inside the commit."""
    connection.execute(f"INSERT INTO {TABLE} (tag, n) VALUES ('{tag}', {n})")  # noqa: S608 - made here
    return f"transactional:{tag}:{n}"


@app.effect(safety="keyed")
async def release(ctx: EffectContext, tag: str) -> str:
    """Undo."""
    return await OUTSIDE.outside.act("undo", ctx, tag)


@app.step
async def break_down(ctx: EffectContext, tag: str) -> str:
    """Fail until somebody has mended it."""
    await OUTSIDE.outside.act("step", ctx, tag)
    if tag not in OUTSIDE.outside.mended:
        raise ValueError(f"{tag} is broken")
    return "mended"


@app.step
async def hand_out(tag: str, token: str) -> None:
    """Hand the token of a callback to whoever will call."""
    OUTSIDE.outside.tokens[token] = tag


async def perform(ctx: Context, act: Act) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line for each kind of act
    """Do what an act says."""
    tag, n = act.tag, act.n
    match act.kind:
        case "look":
            return await ctx.step(look, tag, n) == worth(n)
        case "count":
            return await ctx.step(count, tag, n)
        case "say":
            return await ctx.step(say, tag, n)
        case "keyed":
            return await ctx.effect(pay, tag, n)
        case "once":
            return await ctx.effect(charge, tag, n)
        case "verify":
            return await ctx.effect(send, tag, n)
        case "transactional":
            return await ctx.effect(book, tag, n)
        case "drawn":
            drawn = f"{ctx.uuid()} {ctx.random()} {ctx.now()}"
            return (await ctx.effect(pay, f"{tag}={drawn}", n)).endswith(f"{drawn}:{n}")
        case "sleep":
            await ctx.sleep(seconds(n))
            return "slept"
        case "receive":
            return [[m.sender, m.value] for m in [await ctx.receive(tag, whole=True) for _ in range(n)]]
        case "race":
            try:
                async with asyncio.timeout(n):
                    return [await ctx.receive(tag)]
            except TimeoutError:
                return "late"
        case "event":
            return (await ctx.event("booked", where={"tag": tag}))["n"]
        case "ask":
            return (await ctx.ask(f"which {tag}?", choices=["a", "b"])).value
        case "approve":
            answer = await ctx.approval(f"do {tag}?", show={"tag": tag, "n": n})
            return await ctx.effect(pay, tag, n) if answer else f"denied {answer.by}"
        case "callback":
            callback = ctx.callback(f"call {tag}")
            await ctx.step(hand_out, tag, callback.token)
            return await callback
        case "letter":
            await ctx.send(ctx.run_id, tag, n)
            return await ctx.receive(tag)
        case "money":
            async with ctx.budget.reserve(Decimal(n) / 100) as held:
                await ctx.step(count, tag, n)
                await held.settle(Decimal(n) / 200)
            return "paid"
        case "rate":
            await ctx.rate("model", limit=5, per=seconds(1))
            return await ctx.step(count, tag, n)
        case "fragile":
            return await ctx.step(break_down, tag)
        case "undo":
            return bool(await ctx.on_cancel(release, tag))
        case "children":
            children = [
                await ctx.spawn("play", Script(f"{tag}.{i}", [[one]]), key=f"{tag}.{i}")
                for i, one in enumerate(act.inner)
            ]
            ends = await ctx.join_all(children, return_exceptions=True)
            return ["failed" if isinstance(end, ChildFailed) else end for end in ends]
        case "family":
            return await found_family(ctx, act)
        case "both":
            return list(await asyncio.gather(*(perform(ctx, one) for one in act.inner)))
    raise AssertionError(act.kind)


async def found_family(ctx: Context, act: Act) -> list[Any]:
    """Start children one after the other, and wait for them."""
    children = []
    for i, one in enumerate(act.inner):
        children.append(await ctx.spawn("play", late(act, i, one), key=f"{act.tag}.{i}"))
        await ctx.sleep(seconds(1))
    return await ctx.join_all(children)


def late(act: Act, number: int, one: Act) -> Script:
    """Return what a child of a family does: it does its part a while after it was born."""
    label = f"{act.tag}.{number}"
    return Script(label, [[Act("sleep", f"{label}z", act.n)], [one]])


@app.flow(version=2, keep_checkpoints=3)
async def play(ctx: Context, state: Script) -> Any:
    """Do what the script says."""
    ctx.show({"turn": state.number})
    for act in state.turns[0]:
        try:
            got = await perform(ctx, act)
        except Interrupted:
            got = "interrupted"
        state.got.append([act.tag, got])
    state.turns, state.number = state.turns[1:], state.number + 1
    if state.turns:
        return ctx.again(state)
    ctx.log("done", label=state.label)
    return [pair async for pair in state.got]


app.upcast(1, lambda old: old)


def expected(act: Act, label: str, senders: int) -> Any:  # noqa: C901, PLR0911 - one line for each kind of act
    """Return what an act gives; a callable where more than one thing may come."""
    tag, n = act.tag, act.n
    match act.kind:
        case "look" | "drawn" | "undo":
            return True
        case "count" | "rate":
            return n * 2 + len(tag)
        case "say":
            return "".join(said(tag, n))
        case "keyed" | "once" | "verify" | "transactional":
            return f"{act.kind}:{tag}:{n}"
        case "approve":
            return f"keyed:{tag}:{n}" if approves(tag) else AnyOf(lambda got: str(got).startswith("denied op"))
        case "receive":
            return AnyOf(lambda got: _in_order(got, n, senders))
        case "race":
            return AnyOf(lambda got: got in ("late", [n]))
        case "ask":
            return "ab"[approves(tag)]
        case "event" | "callback" | "letter":
            return n
        case "children":
            return [_of_child(one, label) for one in act.inner]
        case "family":
            return [[[f"{tag}.{i}z", "slept"], [one.tag, expected(one, label, 0)]] for i, one in enumerate(act.inner)]
        case "both":
            return [expected(one, label, senders) for one in act.inner]
    return {"sleep": "slept", "money": "paid", "fragile": "mended"}[act.kind]


def _of_child(act: Act, label: str) -> Any:
    """Return what a child gives; one that breaks down has failed before somebody mended it."""
    right = [[act.tag, expected(act, label, 0)]]
    return AnyOf(lambda got: got in ("failed", right)) if act.kind == "fragile" else right


class AnyOf:
    """Whatever satisfies a check."""

    def __init__(self, check: Any) -> None:
        """Keep the check."""
        self._check = check

    def __eq__(self, other: object) -> bool:
        """Whether it is satisfied."""
        return bool(self._check(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Say that it is open."""
        return "<one of several>"


def _in_order(got: Any, n: int, senders: int) -> bool:
    """Whether a run received everything of each sender, in order (G7)."""
    by_sender: dict[str, list[int]] = {}
    for sender, value in got:
        by_sender.setdefault(sender, []).append(value)
    return len(by_sender) == min(senders, n) and all(
        values == list(range(len(values))) for values in by_sender.values()
    )
