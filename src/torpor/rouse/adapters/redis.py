"""redis, sync and async. A pool looks at a connection before it lends it, finds the dropped one and connects it anew.

After a fork redis notices by the process number; not in a copied machine, where the numbers are equal. Subscriptions are
connections too: the next `get_message()` fails or subscribes anew, and what was published meanwhile is lost, as always there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dropping import drop, lose
from .waking import loaded, unlock

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("redis",)


def classes() -> tuple[type, ...]:
    """Connections, and the pools for their locks."""
    return (
        *loaded("redis.connection", "AbstractConnection", "ConnectionPool"),
        *loaded("redis.asyncio.connection", "AbstractConnection"),
    )


def wake(waking: Waking, found: list[Any]) -> None:
    """Drop each."""
    pools = loaded("redis.connection", "ConnectionPool")
    for each in found:
        if isinstance(each, pools):
            if waking.process_copied:
                unlock(each)
        elif (opened := getattr(each, "_sock", None)) is not None:
            drop(opened.fileno(), process_copied=waking.process_copied)
        elif (writer := getattr(each, "_writer", None)) is not None:
            lose(writer.transport, process_copied=waking.process_copied)
            if waking.process_copied:
                each._reader.feed_eof()  # noqa: SLF001 - an error alone does not show before the next request is sent
