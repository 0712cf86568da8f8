"""SQLAlchemy: `dispose(close=False)` for every engine, sync or async; the driver's own adapter drops the sockets.

The old pools are kept for ever: a driver without an adapter would say goodbye when they are collected. SQLite has no peer: a
database in memory is the connection and lives on; a file must not be used through a connection that was copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .waking import buried, loaded

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("sqlalchemy",)


def classes() -> tuple[type, ...]:
    """An `AsyncEngine` stands on an `Engine`."""
    return loaded("sqlalchemy", "Engine")


def wake(waking: Waking, found: list[Any]) -> None:
    """Give each engine a new pool."""
    for engine in found:
        if engine.dialect.name == "sqlite" and (_in_memory(engine) or not waking.process_copied):
            continue
        buried.append(engine.pool)
        engine.dispose(close=False)


def _in_memory(engine: Any) -> bool:
    return not engine.url.database or ":memory:" in engine.url.database or "mode=memory" in str(engine.url)
