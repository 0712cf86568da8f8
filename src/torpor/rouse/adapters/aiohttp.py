"""aiohttp's client: each connection is lost, in flight or idle. The connector itself passes over lost ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dropping import lose
from .waking import loaded

if TYPE_CHECKING:
    from .waking import Waking

LIBRARIES = ("aiohttp",)


def classes() -> tuple[type, ...]:
    """What stands between a transport and a response, also below a websocket."""
    return loaded("aiohttp.client_proto", "ResponseHandler")


def wake(waking: Waking, found: list[Any]) -> None:
    """Lose each."""
    for each in found:
        lose(each.transport, process_copied=waking.process_copied)
