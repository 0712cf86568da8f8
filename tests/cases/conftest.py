"""The cases run on a file and on a server, with real clocks and, where the case says so, real processes."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.cases.outside import Outside
from tests.cases.world import World
from tests.lab.conftest import figure, lab, lab_of_all  # noqa: F401 - fixtures: some cases take place in machines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stores import Place

KINDS = ("sqlite", "postgres")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path, server_url: Callable[[str], str]) -> Iterator[str]:
    """Return the URL of a fresh database of each kind, on its own clock."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'torpor.db'}"
        return
    server, schema = server_url("postgres"), f"case_{secrets.token_hex(6)}"
    yield f"{server}?schema={schema}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


@pytest.fixture
def outside() -> Iterator[Outside]:
    """Return the outside world that counts."""
    outside = Outside()
    yield outside
    outside.close()


@pytest.fixture
def world(url: str, tmp_path: Path, outside: Outside) -> Iterator[World]:
    """Return a database that real workers can share; none of them outlives the test."""
    world = World(url, tmp_path, outside)
    yield world
    world.close()


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database of each kind, on a clock that is moved by hand."""
    return make_place(request.param)
