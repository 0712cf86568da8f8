"""The word of whoever is outside: the host's file or socket, the kernel's line, the clock that was set (`rouse.detectors`).

A worker process opens what works here, for every watcher of its registry, and looks as soon as one has something to say:
within milliseconds of a wake, where its own tick would take a second.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

from torpor.rouse.ticks import REST_SECONDS, descriptors, outside

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.rouse import Registry


async def hear(registry: Registry, look: Callable[[], object]) -> None:
    """Until cancelled, call `look` from the running loop when somebody outside has spoken, at most twenty times a second."""
    loop = asyncio.get_running_loop()
    later: list[asyncio.TimerHandle] = []
    numbers: list[int] = []

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

    with ExitStack() as open_here:
        opened = await asyncio.to_thread(open_here.enter_context, outside(registry))  # imports; it may ask a bus
        numbers += descriptors(opened)
        listen()
        try:
            await loop.create_future()
        finally:
            for handle in later:
                handle.cancel()
            deafen()
