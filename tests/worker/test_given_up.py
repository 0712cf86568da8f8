"""A worker whose life lock is lost, because the server ended its connection: it must end, also when it has nothing to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from torpor import App, Context
from torpor.errors import StoreUnavailable
from torpor.runtime import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Place

pytestmark = pytest.mark.slow
app = App()


@app.flow
async def idles(ctx: Context) -> str:
    """Be a program that somebody serves."""
    return ctx.run_id


def test_an_idle_worker_without_its_life_lock_ends(make_place: Callable[[str], Place]) -> None:
    """Others believe it dead and take whatever it claims, at once: it says so and ends, to be started again (G2, G13)."""
    place = make_place("postgres")

    async def check() -> None:
        process = Process(place.open(), app)
        working = asyncio.create_task(process.run())
        await process.worker.ready.wait()
        assert place.cut() > 0
        with pytest.raises(StoreUnavailable, match="ended: the life lock is lost") as ended:
            await asyncio.wait_for(working, 120)
        assert ended.value.hint.startswith("start it again")

    asyncio.run(check())
