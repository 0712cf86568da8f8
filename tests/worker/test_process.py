"""A worker and its waker in one process: neither goes on without the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import App, Context
from torpor.runtime import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Place

app = App()


@app.flow
async def idles(ctx: Context) -> str:
    """Be a program that somebody serves."""
    return ctx.run_id


def _fails(*_: object) -> object:
    raise ValueError("cannot reseed")


def test_what_the_waker_dies_of_ends_the_worker(
    make_place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the worker would go on alone, alive and well, and nothing that sleeps would ever be woken (G7, G13)."""

    async def check() -> None:
        process = Process(make_place("sqlite").open(), app)
        working = asyncio.create_task(process.run())
        await process.worker.ready.wait()
        monkeypatch.setattr(process.waker, "sweep", _fails)
        process.waker.soon(1)
        with pytest.raises(ValueError, match="cannot reseed"):
            await asyncio.wait_for(working, PATIENCE_SECONDS)

    asyncio.run(check())
