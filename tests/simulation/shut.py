"""The fault `callback`: a machine sleeps, and a callback of its author's fails until it is mended, or the worker is gone.

Until then its worker is shut (docs/decisions/0014): it begins no effect (G2).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torpor import rouse
from torpor.clock import micros

if TYPE_CHECKING:
    from tests.simulation.faults import Fault
    from tests.simulation.process import Process
    from tests.simulation.world import World

ASLEEP_SECONDS = 1.0
SHUT_SECONDS = 8.0
"""So long a worker tries to go on. Some callbacks are mended before, some are not."""


class Reseeding:
    """A callback that fails while it is `broken`."""

    broken = True

    def __call__(self, _rousal: rouse.Rousal) -> None:
        """Fail, or do nothing."""
        if self.broken:
            raise ValueError("no entropy")


def strike(world: World, fault: Fault, process: Process) -> None:
    """Let a worker's machine sleep for a second; its callback fails then, and for the fault's time after it woke."""
    callback, asleep = Reseeding(), micros(ASLEEP_SECONDS)
    for one in process.both():
        world.workers[one.name].registry.on_rousal(callback, phase=rouse.Phase.RESEED)
    process.freeze()
    world.machines.schedule.after(asleep, partial(_wake, world, process, asleep))
    world.machines.schedule.after(asleep + micros(fault.amount), partial(_mend, world, process, callback))
    world.mends.append(partial(_mend, world, process, callback))


def _wake(world: World, process: Process, asleep: int) -> None:
    if not process.dead:
        world.history.shut.append([world.history.place, 0, process.name])
        process.thaw(clock_stood_still=asleep)


def _mend(world: World, process: Process, callback: Reseeding) -> None:
    callback.broken = False
    for shut in world.history.shut:
        if shut[2] == process.name and not shut[1]:
            shut[1] = world.history.place


def g2_shut_is_shut(world: World) -> list[str]:
    """No effect begins in a worker whose callback fails."""
    return [
        f"G2: {one.process} began {one.kind} {one.tag} while it was shut"
        for first, last, process in world.history.shut
        for one in world.outside.starts
        if one.process == process and first < one.place < last
    ]
