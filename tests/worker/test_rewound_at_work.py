"""A rewind while a worker is in the middle: it stops before its next effect, and what comes late changes nothing (G18)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.worker.counter import COUNTER
from tests.worker.labs import checkpoints, on
from torpor import App, Client, Context
from torpor.core.run import State

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


def test_a_rewind_while_the_effect_is_under_way(store: Store, moment: Moment) -> None:
    """Its late result changes nothing, not even an equal question of the new branch (G18); it is listed before."""
    own = App()
    begun, let_go = asyncio.Event(), asyncio.Event()

    @own.effect
    async def slow(n: int) -> int:
        COUNTER.act("slow")
        begun.set()
        if COUNTER.count == 1:
            await let_go.wait()
            return n
        raise OSError("nobody knows")

    @own.flow
    async def does(ctx: Context, n: int) -> Any:
        return ctx.again(n + 1) if n == 0 else await ctx.effect(slow, n)

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(does, 0)
        settling = asyncio.create_task(lab.settle())
        await begun.wait()
        point = (await checkpoints(lab, run.name))[-1]
        back = await client.rewind(run.name, at=point, by="ana")
        assert [(line.effect, line.outcome) for line in back.outlook.cannot_undo] == [("slow#1", "in flight")]
        await settling
        (asked,) = await lab.waits(run)
        head = (await client.show(run.name)).head
        let_go.set()
        await lab.drain()
        await lab.settle()
        assert (await lab.waits(run)) == [asked]
        assert (await client.show(run.name)).head == head
        assert COUNTER.count == 2

    on(store, moment, own, check)


def test_a_rewind_while_a_step_runs(store: Store, moment: Moment) -> None:
    """The holder stops before its next effect; the new branch runs the step itself."""
    own = App()
    begun, let_go = asyncio.Event(), asyncio.Event()

    @own.step
    async def slow(n: int) -> int:
        COUNTER.act("step")
        begun.set()
        if COUNTER.count == 1:
            await let_go.wait()
        return n

    @own.effect
    async def act(n: int) -> int:
        COUNTER.act("act")
        return n

    @own.flow
    async def does(ctx: Context, n: int) -> Any:
        return await ctx.effect(act, await ctx.step(slow, n))

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(does, 1)
        settling = asyncio.create_task(lab.settle())
        await begun.wait()
        await client.rewind(run.name, at=0, by="ana")
        let_go.set()
        await settling
        assert await lab.result(run) == 1
        assert sorted(COUNTER.calls) == ["act", "step", "step"]
        assert (await lab.store.transact(lambda tx: tx.get_runs([run.number])))[run.number].state is State.COMPLETED

    on(store, moment, own, check)
