"""A thread held a library's lock when the process was copied: the copy has the lock and not the thread."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.rouse.adapters import peers, test_databases, test_http, trials
from tests.rouse.adapters.wires import Wire
from tests.rouse.copying import in_copy, raw_clone
from torpor import rouse

if TYPE_CHECKING:
    from collections.abc import Callable


def of_httpx(client: test_http.Httpx) -> Any:
    """The lock of its pool."""
    return client.client._transport._pool._optional_thread_lock._lock  # noqa: SLF001 - held by hand below


def of_urllib3(client: test_http.Urllib3) -> Any:
    """The lock of the pool of pools."""
    return client.pool.pools.lock


def of_redis(client: test_databases.Redis) -> Any:
    """The lock that is taken when the process number has changed."""
    return client.client.connection_pool._fork_lock  # noqa: SLF001 - held by hand below


CLIENTS: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
    "httpx": (lambda port: test_http.Httpx("httpx", port), of_httpx),
    "urllib3": (test_http.Urllib3, of_urllib3),
    "redis": (test_databases.Redis, of_redis),
}


def trial() -> trials.Report:
    """Runs in a process of its own."""
    rouse.adapt()
    return {library: one(library) for library in CLIENTS}


def one(library: str) -> trials.Report:
    """A thread takes the lock and keeps it; then the process is copied."""
    threading: Any = importlib.import_module("threading")
    make, lock_of = CLIENTS[library]
    with (peers.redis_peer if library == "redis" else peers.http_peer)() as port, Wire(port) as wire:
        client = make(wire.port)
        client.use()
        held, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with lock_of(client):
                held.set()
                leave.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()

        def free() -> bool:
            free = bool(lock_of(client).acquire(blocking=False))
            if free:
                lock_of(client).release()
            return free

        def in_the_copy() -> trials.Report:
            before = free()
            trials.wake(rouse.Kind.COPIED)
            return {"before": before, "after": free(), "use": trials.attempt(client.use)}

        report = in_copy(in_the_copy, raw_clone)
        leave.set()
        thread.join()
        return report


@pytest.mark.slow
def test_the_copy_gets_locks_of_its_own() -> None:
    """Without the adapter its first request would wait for ever."""
    cured = {"before": False, "after": True, "use": "ok"}
    assert trials.report("test_locks") == dict.fromkeys(CLIENTS, cured)
