"""httpcore, and with it httpx; also httpcore2 and httpx2. HTTP/1 and HTTP/2, through proxies, with and without asyncio.

Streams are dropped, so requests in flight end with a `ReadError` or `RemoteProtocolError`. Pools forget their connections: an
idle HTTP/2 connection does not look whether its socket is still good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dropping import drop, lose
from .waking import loaded, unlock

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("httpcore", "httpcore2")
_STREAMS = ("NetworkStream", "AsyncNetworkStream")
_POOLS = ("ConnectionPool", "AsyncConnectionPool")


def classes() -> tuple[type, ...]:
    """Pools, and the streams below them."""
    return tuple(each for library in LIBRARIES for each in loaded(library, *_STREAMS, *_POOLS))


def wake(waking: Waking, found: list[Any]) -> None:
    """Drop each stream, empty each pool."""
    transports = {
        each.get_extra_info("socket").fileno(): each
        for each in waking.living(loaded("asyncio", "Transport"))
        if each.get_extra_info("socket") is not None
    }
    for each in found:
        if hasattr(each, "connections"):
            if waking.process_copied:
                unlock(each)
            each._connections = []  # noqa: SLF001 - close() would wait for the network, and for a lock
        elif (opened := each.get_extra_info("socket")) is not None:
            transport = transports.get(opened.fileno()) if opened.fileno() >= 0 else None
            if transport is not None:
                lose(transport, process_copied=waking.process_copied)
            else:
                drop(opened.fileno(), process_copied=waking.process_copied)
