"""The machines of a world: its processes, its chance, and what stands in the place of the real machine.

What a process asks its machine for (the time, random bits, its incarnation) is answered for the process whose turn it is:
`Machines` puts itself in the place of the few functions of torpor's that ask (`clock`, `rouse`, entropy).
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.simulation.process import START_AT, Process
from tests.simulation.schedule import Schedule
from torpor import clock, rouse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Lives:
    """Incarnations, one count for each process (`rouse.incarnation`)."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def get(self) -> Any:
        process = self._machines.present
        return f"{process.life}" if process is not None else "outside"

    def end(self, value: Any) -> Any:
        process = self._machines.present
        if process is not None and value == self.get():
            process.life += 1
        return self.get()


class Machines:
    """All processes of a world, and what stands in the place of their machines."""

    def __init__(self, seed: int) -> None:
        """Begin with none."""
        self.seed = seed
        self.schedule = Schedule()
        self.processes: list[Process] = []
        self.present: Process | None = None
        """Whose turn it is."""
        self._chances: dict[str, random.Random] = {}

    def chance(self, what: str) -> random.Random:
        """Return the chance of one thing: what others draw does not change it."""
        if what not in self._chances:
            self._chances[what] = random.Random(f"{self.seed}/{what}")  # noqa: S311 - a simulation's chance
        return self._chances[what]

    def start(self, name: str, kind: str, *, shadowed: bool = False) -> Process:
        """Start a process."""
        process = Process(self, name, kind, f"{self.seed}:{name}")
        process.skew = self.chance("skew").choice((0.0, 0.0, 0.0, 0.02, -0.02)) if kind != "people" else 0.0
        if shadowed:
            shadow = Process(self, f"{name}'", kind, f"{self.seed}:{name}")
            shadow.skew, shadow.follows, process.shadow = process.skew, process, shadow
            self.processes.append(shadow)
        self.processes.append(process)
        return process

    @contextmanager
    def within(self, process: Process) -> Iterator[None]:
        """Take a turn as a process."""
        before, loop = self.present, asyncio._get_running_loop()  # noqa: SLF001 - asyncio's own API for loop authors
        self.present = process
        asyncio._set_running_loop(process)  # noqa: SLF001 - the same
        try:
            yield
        finally:
            self.present = before
            asyncio._set_running_loop(loop)  # noqa: SLF001 - the same

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Stand in the place of the machine."""

        def of_present(ask: Callable[[Process], Any], otherwise: Any) -> Callable[..., Any]:
            return lambda: ask(self.present) if self.present is not None else otherwise

        def bits(count: int) -> int:
            return (self.present.rng if self.present is not None else self.chance("bits")).getrandbits(count)

        def some(count: int) -> bytes:
            return bits(8 * count).to_bytes(count, "big")

        with ExitStack() as patched:
            for where, name, instead in (
                (clock, "wall", of_present(Process.wall, START_AT)),
                (clock, "monotonic", of_present(Process.time, 0.0)),
                (sys.modules["torpor.rouse.incarnation"], "_lives", _Lives(self)),
                (secrets, "randbits", bits),
                (secrets, "token_hex", lambda count=16: some(count).hex()),
                (os, "urandom", some),
                (random, "_urandom", some),
            ):
                patched.enter_context(mock.patch.object(where, name, instead))
            yield

    def clocks(self, process: Process) -> rouse.Clocks:
        """Return the clocks of a process as `rouse` asks for them."""
        same = rouse.Process(1, 1, "simulated")
        return rouse.Clocks(process.wall, process.monotonic, process.boottime, lambda: same)

    def close(self) -> None:
        """Let go of everybody."""
        for process in self.processes:
            process.bury()
