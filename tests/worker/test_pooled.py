"""Worker processes that reach PostgreSQL through PgBouncer in transaction mode: hints do not cross, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.house.tree import ROOT
from tests.patience import PATIENCE_SECONDS
from tests.poolers import pooler
from tests.worker.napping import HANGS, app
from torpor.client import Client
from torpor.core.lease import Proof
from torpor.core.run import State
from torpor.engine import runs
from torpor.runtime import Process
from torpor.store import values
from torpor.store.opening import open_store
from torpor.waker import Waker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stores import Place
    from torpor.store.protocol import Store

pytestmark = pytest.mark.slow


@contextmanager
def _worker(url: str, *, hangs: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "torpor", "worker", "tests.worker.napping", "--store", url]
    given = {**os.environ, HANGS: "yes" if hangs else ""}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=given) as process:
        try:
            yield process
        finally:
            process.kill()


def _looks(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert b"looks\n" in iter(process.stdout.readline, b"")


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    assert process.wait() == -signal.SIGKILL


def _register(store: Store) -> None:
    named = [(flow.name, version, flow.source) for flow in app.flows.values() for version in flow.versions]
    store.transact_now(runs.register, named, alive=frozenset())


def test_a_silent_worker_of_another_host_loses_its_run_with_the_lease(make_place: Callable[[str], Place]) -> None:
    """No lock proves its death, so the lease must run out; then another worker takes the step again (G4)."""
    place = make_place("pooled")
    store = place.open()
    _register(store)
    run = store.transact_now(runs.start, [runs.Start("looks", values.encode(None))])[0].run_id
    with _worker(place.url, hangs=True) as killed:
        _looks(killed)
        _kill(killed)
    place.admin.execute("UPDATE workers SET host = 'elsewhere'")
    row = store.transact_now(lambda tx: tx.workers())[0]
    assert store.prove_death(row) is Proof.NONE

    def state() -> State:
        now: State = store.transact_now(lambda tx: tx.get_runs([run]))[run].state
        return now

    place.moment.advance(44)
    asyncio.run(_sweep(store))
    assert state() is State.RUNNING
    place.moment.advance(2)
    asyncio.run(_sweep(store))
    assert state() is State.READY
    asyncio.run(Process(store, app, until_idle=True).run())
    assert state() is State.COMPLETED


async def _sweep(store: Store) -> None:
    await Waker(store).sweep()


def test_a_run_sleeps_and_is_signalled_from_another_process(server_url: Callable[[str], str]) -> None:
    """Killed between its sleeps, gone on with in the next process, woken by a message: all without a hint."""
    schema = f"napping_{secrets.token_hex(4)}"
    try:
        with pooler(server_url("postgres"), "postgres", size=3) as url:
            place = f"{url}?schema={schema}"
            store = open_store(place)
            _register(store)
            asyncio.run(_sleep_and_signal(store, place))
            store.close_now()
    finally:
        with psycopg.connect(server_url("postgres"), autocommit=True) as admin:
            admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


async def _sleep_and_signal(store: Store, place: str) -> None:
    client = Client(store)
    run = (await client.start("naps")).run_id
    with _worker(place) as first:
        await asyncio.to_thread(_looks, first)
        _kill(first)
    with _worker(place):
        await client.signal(run, "go", "on")
        assert await client.result(run, timeout_seconds=PATIENCE_SECONDS) == "on"
