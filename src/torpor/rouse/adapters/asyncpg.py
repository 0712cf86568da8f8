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
    """By its transport: asyncpg's own `terminate()` sends Terminate first."""
    for each in found:
        if not each.is_closed():
            lose(each._transport, process_copied=waking.process_copied)  # noqa: SLF001 - it has no public name
