"""What every room's tests may ask for: a store of each kind, and the clock that it goes by."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.servers import server
from tests.stores import KINDS, SERVERS, Moment, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torpor.store.protocol import Store


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


@pytest.fixture
def make_place(tmp_path: Path, moment: Moment, server_url: Callable[[str], str]) -> Iterator[Callable[[str], Place]]:
    """Return a function that makes a fresh database of a kind."""
    with ExitStack() as places:

        def make(kind: str) -> Place:
            place = Place(kind, tmp_path, moment, server_url(kind) if kind in SERVERS else "")
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
