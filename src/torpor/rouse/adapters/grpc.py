"""grpc: channels that are made anew. `channels = renewed(lambda: grpc.insecure_channel(...))`, `channels.get()` at each use.

The library's core is C with threads and sockets of its own; nobody outside can reach them. A channel cannot be made sound, only
replaced. In the process where it was born the old one is closed: calls in flight end with `CANCELLED`. In a copy of the process
its threads are gone and closing it would wait for them: it is kept for ever and not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..renewed import Renewed
from .waking import buried, take_care

if TYPE_CHECKING:
    from collections.abc import Callable

    from .waking import Waking

LIBRARIES = ("grpc",)


class Channels(Renewed[Any]):
    """A channel that is made anew in each life. Made by `renewed`."""


def renewed(make: Callable[[], Any]) -> Channels:
    """A channel for each life, made by `make()` when it is first asked for."""
    channels = Channels(make)
    take_care(channels)
    return channels


def classes() -> tuple[type, ...]:
    """Only what `renewed` made: closing anybody else's channel would leave them without one."""
    return (Channels,)


def wake(waking: Waking, found: list[Any]) -> None:
    """Let the channels of lives that are over go."""
    for each in found:
        for old in each.let_go():
            if waking.process_copied:
                buried.append(old)
            else:
                old.close()
