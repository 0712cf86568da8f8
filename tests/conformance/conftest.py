"""The conformance suite runs on one more kind of store: the oldest PostgreSQL that torpor supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers import DEBIAN
from tests.stores import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Place

SERVERS = ("postgres", "postgres15") if DEBIAN.is_dir() else ("postgres",)
FILES = ("sqlite", *SERVERS)


@pytest.fixture(params=dict.fromkeys((*KINDS, *SERVERS)))
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database of each kind, PostgreSQL 15 among them where Debian has it."""
    return make_place(request.param)


@pytest.fixture(params=SERVERS)
def on_server(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database on each server: for what only servers can do wrong."""
    return make_place(request.param)


@pytest.fixture(params=FILES)
def shared(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database of each kind that several processes can open."""
    return make_place(request.param)
