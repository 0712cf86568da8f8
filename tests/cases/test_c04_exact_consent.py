"""C04: an approval is used for arguments nobody approved.

While a run waits for consent to send(to=A): (a) something rewrites the arguments; (b) the worker dies and the code that is
run again asks with B; (c) the approver edits to C; (d) another effect with equal arguments is called. Right: what runs
equals what was shown. (b) and (d) need an approval of their own; after (c) C runs, and proposed, approved and executed
values are on record.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Conflict, Context
from torpor.client import Client

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()
world = {"to": "A"}


@app.effect(safety="keyed")
async def send(to: str) -> None:
    """Act."""
    COUNTER.act(f"send {to}")


@app.effect(safety="keyed")
async def erase(to: str) -> None:
    """Act otherwise, with arguments of the same shape."""
    COUNTER.act(f"erase {to}")


@app.flow
async def careful(ctx: Context) -> Any:
    """Do what was approved. What is asked depends on the world outside, as a model's answer that nobody recorded."""
    arguments = {"to": world["to"]}

    async def rewrite() -> None:
        arguments["to"] = "Z"  # (a) a hook that rewrites what was shown

    answer, _ = await asyncio.gather(ctx.approval("send?", show=arguments, editable=True), rewrite())
    if answer:
        await ctx.effect(send, **answer.value)
    return answer.by


@app.flow
async def two(ctx: Context) -> Any:
    """Ask for each effect, though their arguments are equal."""
    found = []
    for name, effect in (("send", send), ("erase", erase)):
        answer = await ctx.approval(f"{name}?", show={"to": "A"})
        if answer:
            await ctx.effect(effect, **answer.value)
        found.append(answer.approved)
    return found


async def asked(lab: Lab, flow: Any) -> tuple[Run, str]:
    """Start a flow and return its run and its wait."""
    world["to"] = "A"
    run = await lab.start(flow)
    await lab.settle()
    return run, (await lab.waits(run))[0].name


def test_what_runs_is_what_was_shown(store: Store, moment: Moment) -> None:
    """(a) Whatever happens to the arguments afterwards (G10)."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, careful)
        client = Client(lab.store)
        item = await client.wait(wait)
        assert item.content["show"] == {"to": "A"}
        await client.approve(wait, by="ada", digest=item.digest)
        assert await lab.result(run) == "ada"
        assert COUNTER.calls == ["send A"]

    on(store, moment, app, check)


@pytest.mark.parametrize("decided", ["before", "not yet"])
def test_other_arguments_need_fresh_consent(store: Store, moment: Moment, decided: str) -> None:
    """(b) The code is run again and asks for B: the old wait is closed, and what was said to it is not used (G10)."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, careful)
        client = Client(lab.store)
        await lab.kill()
        if decided == "before":
            await client.approve(wait, by="ada")
        else:
            await lab.signal(run, "anything")  # wakes it
        world["to"] = "B"
        await lab.settle()
        assert COUNTER.count == 0
        [fresh] = (await client.inbox()).items
        assert fresh.wait != wait
        assert fresh.content["show"] == {"to": "B"}
        with pytest.raises(Conflict, match="the run went on" if decided == "not yet" else "ada approved"):
            await client.approve(wait, by="ben")
        await client.approve(fresh.wait, by="cleo")
        assert await lab.result(run) == "cleo"
        assert COUNTER.calls == ["send B"]

    on(store, moment, app, check)


def test_arguments_that_change_back_are_asked_afresh(store: Store, moment: Moment) -> None:
    """(b) Once closed, a question stays closed: A, then B, then A again are three waits, and none of them is lost."""

    async def check(lab: Lab) -> None:
        run, first = await asked(lab, careful)
        client = Client(lab.store)
        seen = {first}
        wait = first
        for to in ("B", "A"):
            await lab.kill()
            world["to"] = to
            await lab.signal(run, "anything")
            await lab.settle()
            [wait] = [item.wait for item in (await client.inbox()).items]
            seen.add(wait)
        assert len(seen) == 3
        await client.approve(wait, by="ada")
        assert await lab.result(run) == "ada"

    on(store, moment, app, check)


def test_an_edit_runs_and_is_on_record(store: Store, moment: Moment) -> None:
    """(c) C runs; proposed, approved and executed can be read."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, careful)
        client = Client(lab.store)
        shown = (await client.wait(wait)).content["show"]
        await client.approve(wait, by="ada", edits={"to": "C"})
        assert await lab.result(run) == "ada"
        assert COUNTER.calls == ["send C"]
        lines = await lab.journal(run)
        proposed = next(line.value["show"] for line in lines if line.kind == "wait" and line.key)
        approved = next(line.value["value"] for line in lines if line.kind == "consumed")
        executed = next(line.value["more"] for line in lines if line.kind == "intent")
        assert (proposed, approved, executed) == (shown, {"to": "C"}, {"to": "C"})

    on(store, moment, app, check)


def test_consent_to_one_effect_is_none_to_another(store: Store, moment: Moment) -> None:
    """(d) Equal arguments, another effect: it is asked about, and the first consent says nothing about it."""

    async def check(lab: Lab) -> None:
        run, first = await asked(lab, two)
        client = Client(lab.store)
        await client.approve(first, by="ada")
        await lab.settle()
        assert COUNTER.calls == ["send A"]
        [second] = (await client.inbox()).items
        with pytest.raises(Conflict, match="ada approved"):
            await client.approve(first, by="ada")
        await client.deny(second.wait, by="ben")
        assert await lab.result(run) == [True, False]
        assert COUNTER.calls == ["send A"]

    on(store, moment, app, check)
