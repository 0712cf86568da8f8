"""The main points of the crash matrix with real processes, SIGKILL, and databases that survive it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter as Tally
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.house.tree import ROOT
from tests.patience import PATIENCE_SECONDS
from tests.poolers import pooler
from tests.worker.killed import COUNTER, app
from torpor.core.journal import Kind
from torpor.core.run import State
from torpor.core.wait import WaitKind
from torpor.engine import runs, waits
from torpor.runtime import Process
from torpor.store import values
from torpor.store.opening import open_store
from torpor.testing import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torpor.store.protocol import Store

pytestmark = pytest.mark.slow
POINTS = {
    # what is killed: (place, point) -> acts of look, pay, charge by the end; whether a person is asked
    "before the intent of pay": (Place.BEFORE, 2, (1, 1, 1), False),
    "after the intent of pay": (Place.AFTER, 3, (1, 1, 1), False),
    "after pay acted": (Place.ACTED, 2, (1, 2, 1), False),
    "after the outcome of pay": (Place.AFTER, 4, (1, 1, 1), False),
    "after the intent of charge": (Place.AFTER, 5, (1, 1, 0), True),
    "after charge acted": (Place.ACTED, 3, (1, 1, 1), True),
    "before the outcome of charge": (Place.BEFORE, 5, (1, 1, 1), True),
    "after the outcome of charge": (Place.AFTER, 6, (1, 1, 1), False),
}


@pytest.fixture(params=["sqlite", "postgres", "pooled"])
def url(request: pytest.FixtureRequest, tmp_path: Path, server_url: Callable[[str], str]) -> Iterator[str]:
    """Return a fresh database that several processes can share, on the real clock."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'torpor.db'}"
        return
    schema = f"killed_{os.urandom(4).hex()}"
    with ExitStack() as poolers:
        server = server_url("postgres")
        if request.param == "pooled":
            server = poolers.enter_context(pooler(server, "postgres"))
        yield f"{server}?schema={schema}"
    with psycopg.connect(server_url("postgres"), autocommit=True) as admin:
        admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


async def go_on(store: Store, run: int) -> bool:
    """Work on a run until it ends, answering what a person is asked; return whether one was."""
    process = Process(store, app)
    moved = asyncio.Event()
    process.worker.on_event = lambda *_: moved.set()
    working = asyncio.create_task(process.run())
    asked = False
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await store.transact(lambda tx: tx.get_runs([run])))[run].state.final:
            await moved.wait()
            moved.clear()
            for wait in await store.transact(lambda tx: tx.people_waits(limit=9)):
                asked = True
                answer = values.encode({"happened": "by the books"})
                await store.transact(waits.answer, run, wait.seq, answer, kinds=frozenset({WaitKind.ATTENTION}))
    process.worker.stop()
    await working
    return asked


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_process_loses_nothing(url: str, tmp_path: Path, point: str) -> None:
    """Outcomes exactly as the table of safeties says; the dead worker's run is taken over at once (G3, G4, G5)."""
    place, number, acts, asks = POINTS[point]
    COUNTER[:] = [tmp_path / "counter"]
    store = open_store(url)
    try:
        command = [sys.executable, "-m", "tests.worker.killed", url, str(COUNTER[0]), place.value, str(number)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as killed:
            assert killed.stdout is not None
            assert killed.stdout.readline() == b"ready\n"
            run = store.transact_now(runs.start, [runs.Start("shop", values.encode(None))])[0].run_id
            assert killed.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        assert asyncio.run(go_on(store, run)) == asks
        lines = COUNTER[0].read_text().splitlines()
        tally = Tally(line.split()[0] for line in lines)
        assert (tally["look"], tally["pay"], tally["charge"]) == acts
        assert len({line for line in lines if line.startswith("pay")}) == 1
        row = store.transact_now(lambda tx: tx.get_runs([run]))[run]
        assert (row.state, row.takeovers) == (State.COMPLETED, 1)
        outcomes = [e.key for e in store.transact_now(lambda tx: tx.journal(run)) if e.kind is Kind.OUTCOME]
        assert len(outcomes) == len(set(outcomes)) == 4
    finally:
        store.close_now()
