"""A copy of a parked run is what torpor would have written: the same rows as a run that was parked beside it, and it wakes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from torpor.bench.copies import copy_run
from torpor.bench.parent import Child, make_known
from torpor.bench.places import fresh
from torpor.bench.programs import app
from torpor.bench.sleeping import drive
from torpor.client import Client
from torpor.core.ids import run_name
from torpor.runtime import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.bench.copies import Copying, Table
    from torpor.bench.places import Place

MOMENTS = ("at", "created_at", "due_at", "answered_at")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, server_url: Callable[[str], str]) -> str:
    """Return what `--store` is given."""
    return "sqlite" if request.param == "sqlite" else server_url("postgres")


def shown(to: Copying, table: Table, run: int) -> list[tuple[Any, ...]]:
    """Return a run's rows of a table, its number left out, and of moments only whether there is one."""
    return [
        tuple(
            value is not None if column in MOMENTS else value
            for column, value in zip(table.columns, row, strict=True)
            if column != table.number
        )
        for row in to.rows(table, run)
    ]


async def parked(place: Place, program: str) -> list[int]:
    """Let a worker park two runs, and return their numbers."""
    async with opened(place.url) as store:
        await make_known(store, app)
        with Child("go", place) as worker:
            await asyncio.to_thread(worker.heard, "ready")
            return await drive(store, worker, program, 2)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["parked", "dozing"])
def test_a_copy_has_the_rows_of_a_run_that_was_parked(program: str, store: str) -> None:
    """In every table that has rows of runs, and in no other."""
    with fresh(store) as place:
        model, other = asyncio.run(parked(place, program))
        to = place.copying()
        try:
            copy_run(to, model, other + 1, 3, lambda _: None)
            tables = to.tables()
            assert {"runs", "journal", "states", "waits", "inbox", "leases"} <= {table.name for table in tables}
            for table in tables:
                for copy in range(other + 1, other + 4):
                    if program == "dozing" and table.name == "states":  # its input is the moment it was started for
                        assert len(to.rows(table, copy)) == len(to.rows(table, other)) == 1
                    else:
                        assert shown(to, table, copy) == shown(to, table, other), table.name
            waits = next(table for table in tables if table.name == "waits")
            assert len(to.rows(waits, other + 3)) == 1
        finally:
            to.close()


async def woken_copy(place: Place) -> str:
    """Copy a parked run, wake the copy, let another run be started beside it, and return how the copy ended."""
    model, other = await parked(place, "parked")
    to = place.copying()
    try:
        await asyncio.to_thread(copy_run, to, model, other + 1, 2, lambda _: None)
    finally:
        to.close()
    async with Client.connect(place.url) as client:
        fresh_run = await client.start("parked", 0)
        assert fresh_run.run_id == run_name("parked", other + 3)
        with Child("go", place) as worker:
            await client.signal(run_name("parked", other + 2), "go")
            await asyncio.to_thread(worker.heard, "woken")
            await client.result(run_name("parked", other + 2))
    return "completed"


@pytest.mark.slow
def test_a_copy_wakes(store: str) -> None:
    """A copy is woken like any other, and the next run that is started gets a number of its own."""
    with fresh(store) as place:
        assert asyncio.run(woken_copy(place)) == "completed"
