"""asyncpg: each connection is lost. Who waits gets `ConnectionDoesNotExistError`; a pool opens another at the next use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dropping import lose
from .waking import loaded

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("asyncpg",)


def classes() -> tuple[type, ...]:
    """Connections. Pools look at theirs before they lend them."""
    return loaded("asyncpg", "Connection")


def wake(waking: Waking, found: list[Any]) -> None:
    """`terminate()` is asyncpg's own way without a goodbye; in a copy even that would touch the shared loop."""
    for each in found:
        if not each.is_closed():
            lose(each._transport, process_copied=waking.process_copied, abort=each.terminate)  # noqa: SLF001
