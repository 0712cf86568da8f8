"""Database clients: psycopg, psycopg_pool, asyncpg and SQLAlchemy against a real PostgreSQL; redis against enough of one."""

from __future__ import annotations

import importlib
import threading
from abc import abstractmethod
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.adapters import peers, trials
from tests.rouse.adapters.wires import Wire
from tests.servers import server

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK = "SELECT 'ok'"


def url(port: int, scheme: str = "postgresql") -> str:
    """The server behind the wire."""
    return f"{scheme}://postgres@127.0.0.1:{port}/postgres"


class Patient(trials.Client):
    """A client without a time limit of its own. Where the trial wants one, the request is left behind in a thread."""

    @abstractmethod
    def ask(self) -> object:
        """One statement and its answer."""

    def use(self, seconds: float = PATIENCE_SECONDS) -> object:
        """Ask."""
        if seconds == PATIENCE_SECONDS:
            return self.ask()
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(trials.attempt(self.ask)), daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            raise TimeoutError
        return answers[0]


class Psycopg(Patient):
    """One connection, and a new one where the old one is broken: what every user of a plain connection does."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self.psycopg: Any = importlib.import_module("psycopg")
        self.url = url(port)
        self.connection = self.psycopg.connect(self.url, autocommit=True)

    def ask(self) -> object:
        """Ask; once more on a new connection if the old one fails in between requests."""
        if self.connection.closed or self.connection.lock.locked():
            self.connection = self.psycopg.connect(self.url, autocommit=True)
        try:
            return self.connection.execute(ASK).fetchone()[0]
        except self.psycopg.OperationalError:
            if threading.current_thread() is not threading.main_thread():
                raise
            return self.ask()

    def close(self) -> None:
        """Say goodbye."""
        self.connection.close()


class PsycopgPool(Patient):
    """A pool with three workers and a scheduler, all of them threads."""

    def __init__(self, port: int) -> None:
        """Open it."""
        make: Any = importlib.import_module("psycopg_pool").ConnectionPool
        self.pool = make(url(port), min_size=1, max_size=2, open=False, kwargs={"autocommit": True})
        self.pool.open(wait=True)

    def ask(self) -> object:
        """Borrow a connection."""
        with self.pool.connection(PATIENCE_SECONDS / 4) as connection:
            return connection.execute(ASK).fetchone()[0]

    def close(self) -> None:
        """Close the pool, and every connection."""
        self.pool.close()


class AsyncPsycopgPool(trials.AsyncClient):
    """The same in a loop; the workers are its tasks."""

    def __init__(self, port: int) -> None:
        """Open it."""
        super().__init__()
        make: Any = importlib.import_module("psycopg_pool").AsyncConnectionPool
        self.pool = make(url(port), min_size=1, max_size=2, open=False, kwargs={"autocommit": True})
        self.run(self.pool.open(wait=True))

    async def use_async(self, _seconds: float) -> object:
        """Borrow a connection."""
        async with self.pool.connection(PATIENCE_SECONDS / 4) as connection:
            return (await (await connection.execute(ASK)).fetchone())[0]

    def close(self) -> None:
        """Close the pool, and every connection."""
        self.run(self.pool.close())


class AsyncpgPool(trials.AsyncClient):
    """asyncpg's pool."""

    def __init__(self, port: int) -> None:
        """Open it."""
        super().__init__()
        asyncpg: Any = importlib.import_module("asyncpg")

        async def make() -> Any:
            return await asyncpg.create_pool(url(port), min_size=1, max_size=2, ssl=False)

        self.pool = self.run(make())

    async def use_async(self, _seconds: float) -> object:
        """Borrow a connection."""
        return await self.pool.fetchval(ASK)

    def close(self) -> None:
        """Close the pool, and every connection."""
        self.run(self.pool.close())


class SqlAlchemy(Patient):
    """An engine on psycopg, its pool as it comes."""

    def __init__(self, port: int) -> None:
        """Make the engine."""
        self.sqlalchemy: Any = importlib.import_module("sqlalchemy")
        self.engine = self.sqlalchemy.create_engine(url(port, "postgresql+psycopg"))

    def ask(self) -> object:
        """Borrow a connection."""
        with self.engine.connect() as connection:
            return connection.execute(self.sqlalchemy.text(ASK)).scalar()

    def close(self) -> None:
        """Close every connection in the pool."""
        self.engine.dispose()


class AsyncSqlAlchemy(trials.AsyncClient):
    """An engine on asyncpg."""

    def __init__(self, port: int) -> None:
        """Make the engine."""
        super().__init__()
        self.sqlalchemy: Any = importlib.import_module("sqlalchemy")
        make: Any = importlib.import_module("sqlalchemy.ext.asyncio").create_async_engine
        self.engine = make(url(port, "postgresql+asyncpg"))

    async def use_async(self, _seconds: float) -> object:
        """Borrow a connection."""
        async with self.engine.connect() as connection:
            return (await connection.execute(self.sqlalchemy.text(ASK))).scalar()

    def close(self) -> None:
        """Close every connection in the pool."""
        self.run(self.engine.dispose())


class Redis(Patient):
    """redis, no second try by itself."""

    def __init__(self, port: int) -> None:
        """One pool."""
        retry: Any = importlib.import_module("redis.retry").Retry
        no: Any = importlib.import_module("redis.backoff").NoBackoff
        self.client: Any = importlib.import_module("redis").Redis(
            "127.0.0.1", port, protocol=2, lib_name=None, lib_version=None, decode_responses=True, retry=retry(no(), 0),
            socket_timeout=PATIENCE_SECONDS,
        )  # fmt: skip

    def ask(self) -> object:
        """GET."""
        return self.client.get("a")

    def close(self) -> None:
        """Close every connection, which redis does with `shutdown()`."""
        self.client.close()


class AsyncRedis(trials.AsyncClient):
    """The same in a loop."""

    def __init__(self, port: int) -> None:
        """One pool."""
        super().__init__()
        retry: Any = importlib.import_module("redis.asyncio.retry").Retry
        no: Any = importlib.import_module("redis.backoff").NoBackoff
        self.client: Any = importlib.import_module("redis.asyncio").Redis(
            host="127.0.0.1", port=port, protocol=2, lib_name=None, lib_version=None, decode_responses=True,
            retry=retry(no(), 0),
        )  # fmt: skip

    async def use_async(self, _seconds: float) -> object:
        """GET."""
        return await self.client.get("a")

    def close(self) -> None:
        """Close every connection."""
        self.run(self.client.aclose())


ON_POSTGRES = {
    "psycopg": Psycopg,
    "psycopg-pool": PsycopgPool,
    "psycopg-pool-async": AsyncPsycopgPool,
    "asyncpg": AsyncpgPool,
    "sqlalchemy": SqlAlchemy,
    "sqlalchemy-async": AsyncSqlAlchemy,
}
ON_REDIS = {"redis": Redis, "redis-async": AsyncRedis}
LIBRARIES = [*ON_POSTGRES, *ON_REDIS]
KNOWS_A_FORK = {"redis", "redis-async"}
"""Libraries that look at the process number themselves."""


def trial(library: str, at: str) -> trials.Report:
    """Runs in a process of its own."""
    if library in ON_REDIS:
        with peers.redis_peer() as port, Wire(port) as wire:
            return trials.both(ON_REDIS[library], wire)
    with Wire(int(at)) as wire:
        return trials.both(ON_POSTGRES[library], wire)


@pytest.fixture(scope="module")
def at(testrun_uid: str) -> Iterator[str]:
    """The port of a PostgreSQL server."""
    with server("postgres", testrun_uid) as where:
        yield str(urlsplit(where).port)


def check_sleep(told: trials.Report) -> None:
    """The peer is gone and did not say so: without the adapter the client waits for it, with it opens a new connection."""
    assert "imeout" in told["bare"], told
    assert (told["cured"], told["spoke_on_old"]) == ("ok", False), told
    assert told["in_flight"] not in {"ok", "hung"}, told
    assert (told["afterwards"], told["spoke_on_old_in_flight"]) == ("ok", False), told


def check_copy(library: str, told: trials.Report) -> None:
    """Without the adapter the copy speaks on our connection; with it the copy opens its own and ours is not touched."""
    if library not in KNOWS_A_FORK:
        assert told["bare_spoke_on_ours"], told
    assert (told["cured"], told["cured_spoke_on_ours"], told["cured_opened"]) == ("ok", False, True), told
    assert (told["ours_hung_up"], told["ours_still_works"], told["ours_reopened"]) == (False, "ok", 0), told


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_sleep_and_a_copy(library: str, at: str) -> None:
    """The fault without the adapter, and the cure."""
    told = trials.report("test_databases", library, at)
    check_sleep(told["slept"])
    check_copy(library, told["copied"])
