"""What people and programs see of a family of runs."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import TYPE_CHECKING, Any

from tests.worker.labs import on
from torpor import App, Context
from torpor.cli.render import shown_lines
from torpor.cli.screen import Screen
from torpor.client import Client
from torpor.core.run import State

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
SCREEN = Screen(StringIO(), width=100, colour=False, unicode=True)


@app.flow
async def sits(ctx: Context) -> Any:
    """Wait for a word."""
    return await ctx.receive("go")


@app.flow
async def leads(ctx: Context, number: int) -> list[Any]:
    """Have children, one of them independent, and wait for the others."""
    await ctx.spawn("sits", independent=True)
    children = await asyncio.gather(*(ctx.spawn("sits") for _ in range(number)))
    return [await ctx.join_all(children)] if number > 1 else [await ctx.join(children[0])]


def test_a_family_is_shown(store: Store, moment: Moment) -> None:
    """What the parent waits for, whose child it is, how its own stand, and how many more there are (G13)."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(leads, 20)
        await lab.settle()
        assert (await client.get(run.name)).reason == "0 of 20 children"
        shown = await client.show(run.name)
        assert shown.family is not None
        assert (shown.family.parent, len(shown.family.children), shown.family.more) == (None, 12, 9)
        last = shown.family.children[-1]
        for child in shown.family.children[-3:]:
            await client.signal(child.run, "go", 1)
        await lab.settle()
        assert (await client.get(run.name)).reason == "3 of 20 children"
        shown = await client.show(run.name)
        assert shown.family is not None
        assert shown.family.counts == {"waiting": 18, "completed": 3}
        assert shown.unread == []
        text = "\n".join(shown_lines(SCREEN, shown, entries=60))
        assert "  family   21 children: 18 waiting, 3 completed" in text
        assert f"           {last.run}  completed" in text
        assert "           and 9 more" in text
        assert f"child {last.run}" in text
        below = await client.show(last.run)
        assert below.line.parent == run.name
        text = "\n".join(shown_lines(SCREEN, below, entries=60))
        assert f"  family   child of {run.name}" in text

    on(store, moment, app, check)


def test_one_child_is_named(store: Store, moment: Moment) -> None:
    """A parent says for whom it waits; a cancel says how many fall with it, the independent one not among them."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(leads, 1)
        await lab.settle()
        shown = await client.show(run.name)
        assert shown.family is not None
        free, bound = shown.family.children
        assert (free.independent, bound.independent) == (True, False)
        assert shown.line.reason == f"child {bound.run}"
        assert await client.cancel(run.name) == (State.READY, 1, False)
        await lab.settle()
        assert [(await client.get(name)).state for name in (run.name, bound.run, free.run)] == [
            *("cancelled", "cancelled", "waiting")
        ]

    on(store, moment, app, check)
