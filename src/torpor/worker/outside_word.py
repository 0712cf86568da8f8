"""The word of whoever is outside: the host's file or socket, the kernel's line, the clock that was set (`rouse.detectors`).

A worker process opens what works here, for every watcher of its registry, and looks as soon as one has something to say:
within milliseconds of a wake, where its own tick would take a second.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torpor.rouse.ticks import REST_SECONDS, descriptors, outside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torpor.rouse import Registry


@contextmanager
def heard(registry: Registry, look: Callable[[], object]) -> Iterator[None]:
    """Call `look` from the running loop whenever somebody outside has spoken, at most twenty times a second."""
    loop = asyncio.get_running_loop()
    later: list[asyncio.TimerHandle] = []
    with outside(registry) as opened:
        numbers = descriptors(opened)

        def listen() -> None:
            for number in numbers:
                loop.add_reader(number, spoke)

        def spoke() -> None:
            deafen()  # it can be read until the look has read it, and the loop would turn and turn
            look()
            later[:] = [loop.call_later(REST_SECONDS, listen)]

        def deafen() -> None:
            for number in numbers:
                loop.remove_reader(number)

        listen()
        try:
            yield
        finally:
            for handle in later:
                handle.cancel()
            deafen()
