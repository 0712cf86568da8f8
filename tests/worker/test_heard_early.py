"""A decision that comes before its asker knows that it asked: the answer to the commit is still on its way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.worker.labs import FaultyStore, Hold, commits_of, on
from torpor import App, Context
from torpor.engine import leases
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()


@app.flow
async def asks(ctx: Context) -> Any:
    """Ask something."""
    return (await ctx.ask("which?", choices=["a", "b"])).value


class _SlowAnswer(FaultyStore):
    """A store that does the commit that asks, and is slow to say so."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.held = Hold()
        self.read = asyncio.Event()
        self._asks = commits_of("wait ask#1")

    async def transact(self, op: Callable[..., Any], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> Any:
        """Do it; hold the answer back."""
        value = await super().transact(op, *args, lane=lane, **more)
        if self._asks(op, args):
            self.held.reached.set()
            await self.held.released.wait()
        if op is leases.news:
            self.read.set()
        return value


def test_a_decision_is_heard_although_it_came_before_the_answer_to_the_question(store: Store, moment: Moment) -> None:
    """It was counted as seen and belonged to nothing known: the run slept for ever over an answered question (G7, G13)."""

    async def check(lab: Lab) -> None:
        slow: Any = lab.store
        worker = await lab.worker()
        run = await lab.start(asks)
        await slow.held.reached.wait()
        await lab.answer("which?", value="b")
        slow.read.clear()
        worker.look_at(worker.executors[run.number])
        await slow.read.wait()
        heard = asyncio.Event()
        worker.loop.call_soon(worker.loop.call_soon, heard.set)  # what was read is told in the next turn
        await heard.wait()
        slow.held.released.set()
        assert await lab.result(run) == "b"

    on(_SlowAnswer(store), moment, app, check)
