"""The claim loop: when a worker claims again at once, and when it waits for a hint."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.worker.labs import on
from torpor import App, Context
from torpor.client import Client
from torpor.engine import runs
from torpor.worker import worker as at_work
from torpor.worker.worker import Worker

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
_ROUNDS = 50
"""More rounds of the loop than a claim that does not wait needs."""


async def _rounds() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(_ROUNDS):
        over = loop.create_future()
        loop.call_soon(over.set_result, None)
        await over


@app.flow
async def nothing(ctx: Context, word: str) -> str:
    """End at once."""
    del ctx
    return word


@pytest.mark.parametrize(
    ("second", "order"),
    [
        ((3, True), ["claim", "claim", "claim", "wake", "claim"]),
        ((3, False), ["claim", "claim", "wake", "claim", "wake"]),
        ((0, True), ["claim", "claim", "wake", "claim", "wake"]),  # what is left is in other workers' hands
    ],
)
def test_it_claims_again_only_if_something_is_left(
    second: tuple[int, bool], order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what was claimed would wait behind a claim of nothing; what comes later brings a hint of its own (G20)."""
    monkeypatch.setattr(at_work, "TICK_SECONDS", PATIENCE_SECONDS)
    worker: Any = Worker(SimpleNamespace(), app.flows)
    worker.standing = SimpleNamespace(gone="")
    happened: list[str] = []
    answers = iter([(1, True), second])

    async def claim() -> tuple[int, bool]:
        happened.append("claim")
        return next(answers, (0, False))

    async def check() -> None:
        monkeypatch.setattr(worker, "_claim", claim)
        looping = asyncio.create_task(worker._claim_loop())  # noqa: SLF001 - what is tested
        for _ in range(2):
            await _rounds()
            happened.append("wake")
            worker.wake()
        worker.stop()
        await asyncio.wait_for(looping, PATIENCE_SECONDS)

    asyncio.run(check())
    assert happened[: len(order)] == order


def test_one_wake_is_enough_for_every_tenant(store: Store, moment: Moment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of several tenants become ready in one transaction: each claim but the last says that others are left."""
    monkeypatch.setattr(at_work, "TICK_SECONDS", PATIENCE_SECONDS)

    told: list[tuple[int, bool]] = []
    real = Worker._claim  # noqa: SLF001 - what it answers is watched

    async def claim(worker: Worker) -> tuple[int, bool]:
        answer = await real(worker)
        told.append(answer)
        return answer

    async def check(lab: Lab) -> None:
        worker = await lab.worker()
        new = [runs.Start("nothing", b'"done"', tenant=tenant) for tenant in ("one", "two", "two", "three")]
        started = await lab.store.transact(runs.start, new)
        worker.wake()  # as the hint does, if it comes: a server's listener may not be there yet
        for one in started:
            assert await Client(lab.store).result(one.name, timeout_seconds=PATIENCE_SECONDS) == "done"
        assert [taken for taken, _ in told if taken] == [1, 1, 2]
        assert [left for taken, left in told if taken] == [True, True, store.kind == "postgres"]

    monkeypatch.setattr(Worker, "_claim", claim)
    on(store, moment, app, check)
