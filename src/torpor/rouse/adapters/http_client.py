"""`http.client` of the standard library and what stands on it: urllib3, requests, boto3.

urllib3 looks at an idle connection before it uses it, finds the dropped one and opens another. A plain `HTTPConnection` has no
pool to do that: its next request fails, and its user calls `close()` and asks again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .dropping import drop
from .waking import loaded, unlock

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("http.client",)


def classes() -> tuple[type, ...]:
    """Connections, responses that outlive theirs, and urllib3's pools, for their locks."""
    return (
        *loaded("http.client", "HTTPConnection", "HTTPResponse"),
        *loaded("urllib3", "PoolManager", "HTTPConnectionPool"),
    )


def wake(waking: Waking, found: list[Any]) -> None:
    """Drop each socket."""
    for each in found:
        if hasattr(each, "pools") or hasattr(each, "pool"):
            if waking.process_copied:
                unlock(each, getattr(each, "pools", None), getattr(each, "pool", None))
            continue
        with suppress(OSError, ValueError, AttributeError):  # closed, or half made by another thread
            opened = each.sock if hasattr(each, "sock") else each
            if opened is not None:
                drop(opened.fileno(), process_copied=waking.process_copied)
