"""One rate limit, two real processes, the real clock."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.client import Client
from torpor.core.ids import parse_run
from torpor.core.journal import Kind
from torpor.engine import runs
from torpor.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torpor.store.protocol import Store

pytestmark = pytest.mark.slow
RUNS, LIMIT, PER_SECONDS = 24, 5, 0.5
APP = f'''"""An app with a limit."""

from __future__ import annotations

from torpor import App, Context

app = App()


@app.flow
async def sends(ctx: Context) -> None:
    await ctx.rate("mail", limit={LIMIT}, per={PER_SECONDS})
'''


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, server_url: Callable[[str], str]) -> Iterator[Store]:
    """Return a fresh database that several processes can share, on the real clock."""
    schema = f"rates_{os.urandom(4).hex()}"
    on_server = request.param == "postgres"
    url = f"{server_url('postgres')}?schema={schema}" if on_server else f"sqlite:///{tmp_path / 'torpor.db'}"
    opened = open_store(url)
    yield opened
    opened.close_now()
    if on_server:
        with psycopg.connect(server_url("postgres"), autocommit=True) as admin:
            admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


async def all_done(store: Store) -> list[int]:
    """Start the runs and wait for their ends; return when each took what it asked for."""
    client = Client(store)
    started = [await client.start("sends") for _ in range(RUNS)]
    for one in started:
        await client.result(one.run_id, timeout_seconds=PATIENCE_SECONDS)
    numbers = [parse_run(one.run_id)[1] for one in started]
    journals = await store.transact(lambda tx: [entry for number in numbers for entry in tx.journal(number)])
    return [entry.at for entry in journals if entry.kind is Kind.OUTCOME and entry.key is not None]


def test_two_processes_never_exceed_a_limit(store: Store, tmp_path: Path) -> None:
    """In any window of `per`, by the store's clock, at most so many acted; and all of them did."""
    (tmp_path / "sending.py").write_text(APP, "utf-8")
    store.transact_now(runs.register, [("sends", 1, "sending:sends")])
    command = [sys.executable, "-m", "torpor", "worker", "sending.py", "--store", store.url]
    workers = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(2)]
    try:
        while len(store.transact_now(lambda tx: tx.workers())) < len(workers):
            assert all(worker.poll() is None for worker in workers)
        moments = asyncio.run(all_done(store))
    finally:
        for worker in workers:
            worker.terminate()
            worker.communicate(timeout=PATIENCE_SECONDS)
    assert len(moments) == RUNS
    per = round(PER_SECONDS * 1_000_000)
    assert max(sum(begin <= at < begin + per for at in moments) for begin in moments) <= LIMIT
