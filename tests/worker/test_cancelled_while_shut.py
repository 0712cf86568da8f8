"""A run that is cancelled or interrupted while its worker waits until it may act (G12, G13)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on, until
from torpor import App, Client, Context

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run
    from torpor.worker.roles import Executor

app = App()


@app.effect(safety="keyed")
async def release() -> None:
    """Undo: what a cancelled run does last."""
    COUNTER.act("release")


@app.effect(safety="transactional")
def book(_connection: Any) -> str:
    """Act in the transaction that records it."""
    COUNTER.act("book")
    return "booked"


@app.flow
async def books(ctx: Context) -> None:
    """Book, and wait for good."""
    await ctx.on_cancel(release)
    await ctx.effect(book)
    await ctx.receive("never")


@app.flow
async def reserves(ctx: Context) -> None:
    """Reserve, and wait for good."""
    await ctx.on_cancel(release)
    await ctx.budget.reserve("0.20")
    await ctx.receive("never")


@app.flow
async def takes(ctx: Context) -> None:
    """Take a place, and wait for good."""
    await ctx.on_cancel(release)
    await ctx.rate("mail", limit=10, per=60)
    await ctx.receive("never")


class Waiting:
    """A worker's `stands`, which says nothing before it is released: a callback of the process has not returned yet."""

    def __init__(self, standing: Any) -> None:
        """Take its place."""
        self.reached, self.released, self._stands = asyncio.Event(), asyncio.Event(), standing.stands
        standing.stands = self.ask

    async def ask(self) -> bool:
        """Wait, and ask the worker then."""
        self.reached.set()
        await self.released.wait()
        return bool(await self._stands())


async def about_to_send(lab: Lab, flow: Any) -> tuple[Run, Executor, Waiting]:
    """Start a run whose worker is about to send something by itself, and waits until it may."""
    worker = await lab.worker()
    waiting = Waiting(worker.standing)
    run = await lab.start(flow)
    await waiting.reached.wait()
    return run, worker.executors[run.number], waiting


@pytest.mark.parametrize("flow", [books, reserves, takes], ids=["transactional", "budget", "rate"])
def test_what_a_cancelled_run_was_about_to_do_is_not_done(store: Store, moment: Moment, flow: Any) -> None:
    """It undoes what it did and ends; the commit that waited neither is sent nor comes between."""

    async def check(lab: Lab) -> None:
        run, executor, waiting = await about_to_send(lab, flow)
        await lab.cancel(run)
        await until(lambda: executor.cancelling)
        waiting.released.set()
        await lab.settle()
        assert await lab.state(run) == "cancelled"
        assert COUNTER.calls == ["release"]
        kinds = [line.key.split("#")[0] for line in await lab.journal(run) if line.key]
        assert not {"book", "budget", "rate", "mail"} & set(kinds), kinds
        assert not (await lab.worker()).executors

    on(store, moment, app, check)


@pytest.mark.parametrize("flow", [books, reserves, takes], ids=["transactional", "budget", "rate"])
def test_an_interrupt_ends_it_too(store: Store, moment: Moment, flow: Any) -> None:
    """The run does not stand still behind a commit that is not sent any more (G13)."""

    async def check(lab: Lab) -> None:
        run, executor, waiting = await about_to_send(lab, flow)
        await Client(lab.store).interrupt(run.name, by="ben")
        await until(lambda: executor.unread)
        waiting.released.set()
        await lab.settle()
        assert await lab.state(run) == "failed"

    on(store, moment, app, check)
