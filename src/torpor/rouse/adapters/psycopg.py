"""psycopg and psycopg_pool, sync and async. A connection of another life fails at its next use; a pool opens new ones.

A pool in a copy of the process has no threads any more: they are started anew. Sockets of an `AsyncConnection` with a statement
in flight are left to libpq, which is told that nothing more comes: it drops such a connection without a goodbye.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .dropping import drop, in_loop_of
from .waking import loaded, unlock

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("psycopg",)


def classes() -> tuple[type, ...]:
    """Connections and pools."""
    return (
        *loaded("psycopg", "Connection", "AsyncConnection"),
        *loaded("psycopg_pool", "ConnectionPool", "AsyncConnectionPool"),
    )


def wake(waking: Waking, found: list[Any]) -> None:
    """First every connection, then the pools: they may close theirs as they like, it reaches nobody."""
    pools = loaded("psycopg_pool", "ConnectionPool", "AsyncConnectionPool")
    for each in found:
        if not isinstance(each, pools) and hasattr(each, "pgconn") and not each.closed:
            _drop(each, waking)
    for each in found:
        if isinstance(each, pools) and not each.closed:
            _refill(each, waking)


def _drop(connection: Any, waking: Waking) -> None:
    in_a_loop = isinstance(connection, loaded("psycopg", "AsyncConnection"))
    if in_a_loop and connection.lock.locked() and not waking.process_copied:
        with suppress(OSError), socket.socket(fileno=connection.fileno()) as opened:
            try:
                opened.shutdown(socket.SHUT_RD)
            finally:
                opened.detach()
        return
    with suppress(*loaded("psycopg", "Error")):  # closed meanwhile
        drop(connection.fileno(), process_copied=waking.process_copied)


def _refill(pool: Any, waking: Waking) -> None:
    if not isinstance(pool, loaded("psycopg_pool", "ConnectionPool")):
        workers = pool._workers  # noqa: SLF001 - the only place where a pool says which loop is its own
        if workers:
            asyncio: Any = sys.modules["asyncio"]
            in_loop_of(workers[0], lambda: asyncio.ensure_future(pool.drain(), loop=workers[0].get_loop()))
    elif waking.process_copied:
        _begin_again(pool)
    else:
        pool.drain()


def _begin_again(pool: Any) -> None:
    """In a copy: no worker, no scheduler, nobody who waits. As if it had been made and not been opened yet."""
    unlock(pool)
    pool._pool.clear()  # noqa: SLF001 - a pool cannot be opened twice; its makers have no way for copies
    pool._waiting.clear()  # noqa: SLF001
    pool._workers = []  # noqa: SLF001
    pool._sched_runner = None  # noqa: SLF001
    pool._nconns, pool._growing = pool.min_size, False  # noqa: SLF001
    pool._closed, pool._opened = True, False  # noqa: SLF001
    pool.open()
