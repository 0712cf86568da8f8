"""How long somebody could have carried a cancel down to descendants: the time that G12's five seconds are counted in.

The promise holds while a waker is alive and the store answers. So time counts only while a waker runs, with its network, and
has no answer overdue or failed, and while the database is there and can write. Lost hints are no excuse, nor is a slow network.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from tests.simulation.process import SECOND

if TYPE_CHECKING:
    from tests.simulation.link import Database
    from tests.simulation.machines import Machines

BEAT = SECOND // 5
"""So often it is looked, in microseconds. A stretch between two looks counts only if all was well at both."""


class Vigil:
    """Looks again and again whether a waker can work."""

    def __init__(self, machines: Machines, database: Database) -> None:
        """Begin to look."""
        self._machines, self._database = machines, database
        self._places: list[int] = [0]
        self._worked: list[int] = [0]
        self._well = False
        self._look()

    def _look(self) -> None:
        schedule = self._machines.schedule
        well = self._is_well()
        self._places.append(schedule.events)
        self._worked.append(self._worked[-1] + (BEAT if well and self._well else 0))
        self._well = well
        schedule.after(BEAT, self._look)

    def _is_well(self) -> bool:
        now, database = self._machines.schedule.now, self._database
        if now < max(database.down_until, database.full_until):
            return False
        return any(
            link.answered and now >= link.cut_until and link.process.alive and not link.process.frozen
            for link in database.links.values()
            if link.process.kind == "waker"
        )

    def between(self, place: int, later: int) -> float:
        """Return for how many seconds a waker could surely work between two places of the history."""
        first = bisect_right(self._places, place)  # the next look: what lies before it is left out
        last = bisect_right(self._places, later) - 1
        if first >= last:
            return 0.0
        return (self._worked[last] - self._worked[first]) / SECOND
