"""What every room's tests may ask for: a store of each kind, and the clock that it goes by."""

from __future__ import annotations

import gc
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.adapters.unadapting import unadapt
from tests.schemas import Schemas
from tests.servers import server
from tests.slowness import slow
from tests.stores import KINDS, SERVERS, Moment, Place
from torpor.store.postgres import lending as lending_on_server
from torpor.store.sqlite import SqliteStore
from torpor.store.sqlite import lending as lending_in_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torpor.store.protocol import Store


SLOW = slow.begin(os.environ[slow.SLOWNESS]) if os.environ.get(slow.SLOWNESS) else None
"""A slow machine, if one was asked for: `make slowly`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what takes long begin first, so that no process of a run waits for another's last long test at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Keep what is there once all tests are collected out of every later collection of garbage.

    They are half a million objects, which nobody lets go: a test that calls `gc.collect()`, as each simulated world
    does, would walk through them each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _slowness(request: pytest.FixtureRequest) -> None:
    """Draw for each test how slow the machine is, where it is slow at all."""
    if SLOW is not None:
        SLOW.again(request.node.nodeid)


@pytest.fixture(autouse=True)
def _adapted_by_nobody() -> Iterator[None]:
    """Take back what a worker in this process did for all of it: another test's rousal would close everybody's connections."""
    yield
    unadapt()


@pytest.fixture(scope="session", autouse=True)
def _patience() -> Iterator[None]:
    """Let torpor be as patient as the tests: what it gives up after some seconds is given up in tests about that alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "wait_seconds", PATIENCE_SECONDS)
        for lending in (lending_in_file, lending_on_server):
            patch.setattr(lending, "LENT_SECONDS", PATIENCE_SECONDS)
        patch.setenv("PGCONNECT_TIMEOUT", f"{PATIENCE_SECONDS:g}")
        yield


@pytest.fixture(scope="session")
def server_url() -> Iterator[Callable[[str], str]]:
    """Return the URL of a PostgreSQL server by kind, one of `SERVERS`; it is started when first asked for."""
    known: dict[str, str] = {}
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    with ExitStack() as open_servers:

        def url(kind: str) -> str:
            if kind not in known:
                known[kind] = open_servers.enter_context(server("postgres" if kind == "pooled" else kind, run_id))
            return known[kind]

        yield url


@pytest.fixture
def moment() -> Moment:
    """Return the clock of this test's stores: `moment.advance(seconds)`."""
    return Moment()


@pytest.fixture(scope="session")
def spares(server_url: Callable[[str], str]) -> Iterator[dict[str, Schemas]]:
    """Return the schemas of each kind of server that a test has left to the next one."""
    known = {kind: Schemas() for kind in SERVERS}
    yield known
    for kind, schemas in known.items():
        if schemas.any:
            with psycopg.connect(server_url(kind), autocommit=True) as admin:
                schemas.drop(admin)


@pytest.fixture
def make_place(
    tmp_path: Path, moment: Moment, server_url: Callable[[str], str], spares: dict[str, Schemas]
) -> Iterator[Callable[[str], Place]]:
    """Return a function that makes a fresh database of a kind."""
    with ExitStack() as places:

        def make(kind: str) -> Place:
            place = Place(kind, tmp_path, moment, server_url(kind) if kind in SERVERS else "", spares.get(kind))
            places.callback(place.close)
            return place

        yield make


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database of each kind: `memory`, `sqlite`, `postgres`."""
    return make_place(request.param)


@pytest.fixture
def store(place: Place) -> Store:
    """Return an open store of each kind, empty, on the clock of `moment`."""
    return place.open()
