"""The window that no fence closes: from the gate's last look into the store to the first line of the effect (G4).

A copy of the machine that is made in between passes as well. How long it is, is in docs/rouse.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import App, Context
from torpor.client import Client
from torpor.engine.effects import look
from torpor.runtime import Process
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Place
    from torpor.store.protocol import Store

T = TypeVar("T")
EFFECTS = 200
MOST_MICROS = 20_000
"""Of the median; it is a hundredth of that on a quiet machine."""

app = App()
_looked: list[int] = []
_began: list[int] = []


class Timed:
    """A store that notes when the gate's question was answered inside it."""

    def __init__(self, store: Store) -> None:
        """Time a store."""
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """Be the store for everything else."""
        return getattr(self._store, name)

    async def transact(self, op: Callable[..., T], /, *args: Any, lane: Lane = Lane.WORK, **more: Any) -> T:
        """Do it; a gate's look is noted when it has read, before its transaction ends."""

        def noted(*given: Any, **named: Any) -> T:
            found = op(*given, **named)
            _looked.append(time.perf_counter_ns())
            return found

        return await self._store.transact(noted if op is look else op, *args, lane=lane, **more)


@app.effect
async def act() -> None:
    """Begin."""
    _began.append(time.perf_counter_ns())


@app.flow
async def acts(ctx: Context) -> None:
    """Act often."""
    for _ in range(EFFECTS):
        await ctx.effect(act)


@pytest.mark.slow
@pytest.mark.alone
def test_the_window_between_the_last_look_and_the_act(place: Place) -> None:
    """On each store; `TORPOR_LAB_FIGURES` keeps what is measured."""
    _looked.clear()
    _began.clear()

    async def main() -> None:
        store = place.open()
        process = Process(Timed(store), app)
        working = asyncio.create_task(process.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.worker.ready.wait()
            client = Client(store)
            await client.result((await client.start("acts")).run_id)
            process.worker.stop()
            await working

    asyncio.run(main())
    assert len(_looked) == len(_began) == EFFECTS
    micros = sorted((began - looked) / 1000 for looked, began in zip(_looked, _began, strict=True))
    assert micros[0] > 0
    assert statistics.median(micros) < MOST_MICROS
    if keep := os.environ.get("TORPOR_LAB_FIGURES"):
        value = [statistics.median(micros), micros[-EFFECTS // 100 - 1], micros[-1]]
        said = {"figure": f"window on {place.kind}, us: median, 99 of 100, most", "value": value}
        with Path(keep).open("a") as opened:
            opened.write(json.dumps(said) + "\n")
