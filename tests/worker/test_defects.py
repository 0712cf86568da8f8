"""A defect of torpor's own, in the code that takes in what became durable: it ends one stretch of one run (G1, G13)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import FaultyStore, on, times
from torpor import App, Context
from torpor.engine import leases
from torpor.engine.commit import commit
from torpor.errors import NeedsPerson
from torpor.worker.executor import Executor

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()


@app.flow
async def counts(ctx: Context, turn: int) -> Any:
    """End three turns, each with a checkpoint."""
    return turn if turn == 3 else ctx.again(turn + 1)


def test_a_defect_ends_one_stretch(store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed is kept and is not committed again; the run is let go, and goes on under another lease."""
    taken, met = Executor._next_turn, [0]  # noqa: SLF001 - the defect is planted there

    def next_turn(self: Executor, proposal: Any, reply: Any) -> None:
        if self.lease.epoch == 1:
            met[0] += 1
            raise KeyError("a defect")
        taken(self, proposal, reply)

    monkeypatch.setattr(Executor, "_next_turn", next_turn)

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        told: asyncio.Queue[str] = asyncio.Queue()
        worker.on_event = lambda what, executor, _state: told.put_nowait(f"{executor.lease.epoch} {what}")
        run = await lab.start(counts, 0)
        assert [await asyncio.wait_for(told.get(), PATIENCE_SECONDS) for _ in range(2)] == ["1 awake", "1 lost"]
        moment.advance(46)  # the lease that was let go without a word ends
        await lab.store.transact(leases.reap, {}, quiet_until=0)
        assert await lab.result(run) == 3
        assert [line.epoch for line in await lab.journal(run) if line.kind == "checkpoint"] == [1, 2, 2]

    on(store, moment, app, check)
    assert met == [1]


@pytest.mark.parametrize("refusals", [1, 3])
def test_what_the_store_refuses_is_tried_by_whoever_takes_over(store: Store, moment: Moment, refusals: int) -> None:
    """The lease that was let go keeps the attempts apart: it is nobody's until its time is over. The third calls a person."""
    faulty = FaultyStore(store)
    faulty.fault = times(refusals, commit, OSError("refused"))

    async def check(lab: Lab) -> None:
        worker: Any = await lab.worker()
        told: asyncio.Queue[str] = asyncio.Queue()
        stirs = worker.on_event

        def on_event(what: str, executor: Any, state: Any) -> None:
            told.put_nowait(f"{executor.lease.epoch} {what}")
            stirs(what, executor, state)

        worker.on_event = on_event
        run = await lab.start(counts, 3)
        for epoch in range(1, refusals + 1):
            seen = [await asyncio.wait_for(told.get(), PATIENCE_SECONDS) for _ in range(2)]
            assert seen == [f"{epoch} awake", f"{epoch} lost"]
            assert await lab.store.transact(leases.reap, {}, quiet_until=0) == []
            moment.advance(46)
            assert len(await lab.store.transact(leases.reap, {}, quiet_until=0)) == 1
        if refusals == 1:
            assert await lab.result(run) == 3
            return
        with pytest.raises(NeedsPerson):
            await lab.result(run)

    on(cast("Store", faulty), moment, app, check)
