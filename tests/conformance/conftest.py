"""The conformance suite runs on two more kinds of store: the oldest PostgreSQL that torpor supports, and a pooled one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.poolers import PGBOUNCER
from tests.servers import DEBIAN
from tests.stores import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Place

DIRECT = ("postgres", "postgres15") if DEBIAN.is_dir() else ("postgres",)
SERVERS = (*DIRECT, "pooled") if PGBOUNCER.is_file() else DIRECT
FILES = ("sqlite", *SERVERS)


@pytest.fixture(params=dict.fromkeys((*KINDS, *SERVERS)))
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database of each kind, also on PostgreSQL 15 and behind PgBouncer where Debian has them."""
    return make_place(request.param)


@pytest.fixture(params=SERVERS)
def on_server(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database on each server: for what only servers can do wrong."""
    return make_place(request.param)


@pytest.fixture(params=DIRECT)
def direct(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database on each server without a pooler: for what belongs to a connection of one's own."""
    return make_place(request.param)


@pytest.fixture(params=("sqlite", *DIRECT))
def unpooled(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database of each kind that carries hints from process to process."""
    return make_place(request.param)


@pytest.fixture(params=FILES)
def shared(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a fresh database of each kind that several processes can open."""
    return make_place(request.param)
