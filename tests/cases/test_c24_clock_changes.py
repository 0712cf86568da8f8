"""C24: schedules across clock changes.

New York, on a simulated database clock: 02:30 daily over 14 March 2027, 01:30 daily over 7 November 2027, and every 15
minutes over both. Two scheduler processes; one is killed and replaced inside the changed hour. Right: in autumn once; in
spring once at the stated substitute time, with a visible record; every 15 minutes in real time; one run for each schedule
and instant, whichever process fires. Unknown zones are refused on creation.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.cases.world import ROOT
from torpor.client import Client
from torpor.core.schedule import SECOND
from torpor.engine import runs
from torpor.errors import UsageError
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.stores import Moment, Place
    from torpor.engine.queries.schedules import ScheduleLine
    from torpor.store.protocol import Store

ZONE = "America/New_York"
QUARTER = 900
SCHEDULES = {"half_past_two": "30 2 * * *", "half_past_one": "30 1 * * *", "quarters": "*/15 * * * *"}


class Scheduler:
    """A scheduler process."""

    def __init__(self, url: str, clock_file: Path) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.cases.scheduler", url, str(clock_file)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self) -> None:
        """Let it look, and do not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write("look\n")
        self.process.stdin.flush()

    def told(self) -> None:
        """Wait until it has looked."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "done\n"

    def kill(self) -> None:
        """End it wherever it is."""
        self.process.kill()
        self.process.communicate()


class Night:
    """A store on a simulated clock, its schedules, and two scheduler processes."""

    def __init__(self, place: Place, moment: Moment, folder: Path) -> None:
        """Begin long before."""
        self.moment, self._place, self._clock = moment, place, folder / "clock"
        moment.follow(self._show)
        self.store: Store = place.open()
        self.client = Client(self.store)
        self.schedulers: list[Scheduler] = []

    def _show(self, at: int) -> None:
        self._clock.write_text(str(at), "ascii")

    def begin(self, *, at: datetime) -> None:
        """Set the clock, make the schedules, start the processes."""
        self.moment.advance(at.timestamp() - self.moment.at / SECOND)
        self.store.transact_now(runs.register, [("report", 1, "m:report")])
        for name, cron in SCHEDULES.items():
            asyncio.run(self.client.create_schedule(name, "report", cron, zone=ZONE))
        asyncio.run(self.client.create_schedule("interval", "report", every=QUARTER))
        self.schedulers = [self._scheduler(), self._scheduler()]

    def _scheduler(self) -> Scheduler:
        return Scheduler(self._place.url, self._clock)

    def pass_quarters(self, count: int, *, kill_at: datetime) -> None:
        """Go on, both looking at every quarter of an hour; at a moment one is killed while it looks, and replaced."""
        for _ in range(count):
            self.moment.advance(QUARTER)
            for one in self.schedulers:
                one.tell()
            if self.moment.at == int(kill_at.timestamp()) * SECOND:
                self.schedulers[0].kill()
                self.schedulers[0] = self._scheduler()
                self.schedulers[0].tell()
            for one in self.schedulers:
                one.told()

    def line(self, name: str) -> ScheduleLine:
        """Return a schedule with all its slots."""
        return asyncio.run(self.client.schedule(name, slots=1_000))

    def walls(self, name: str) -> list[str]:
        """Return what the wall's clock showed at each slot."""
        slots = self.line(name).slots
        assert all(slot.fate == "fired" and slot.many == 1 for slot in slots), slots
        return [local(slot.slot_at) for slot in slots]

    def one_run_each(self) -> bool:
        """Whether there is one run for each slot of every schedule, and no other."""
        named = [slot.run for line in asyncio.run(self.client.schedules(slots=1_000)) for slot in line.slots]
        made = self.store.transact_now(lambda tx: tx.list_runs(RunFilter(limit=10_000)))
        return max(Counter(named).values()) == 1 and len(named) == len(made)

    def close(self) -> None:
        """End the processes."""
        for one in self.schedulers:
            one.kill()


def local(at: int) -> str:
    """Return a moment in New York."""
    from zoneinfo import ZoneInfo

    return datetime.fromtimestamp(at // SECOND, ZoneInfo(ZONE)).strftime("%d %b %H:%M %z")


@pytest.fixture
def night(place: Place, moment: Moment, tmp_path: Path) -> Iterator[Night]:
    """Return a night on each kind of store."""
    night = Night(place, moment, tmp_path)
    yield night
    night.close()


@pytest.mark.slow
def test_the_clock_goes_forward(night: Night) -> None:
    """02:30 does not exist on 14 March 2027: once at 03:00, and the record says why."""
    night.begin(at=datetime(2027, 3, 13, 23, tzinfo=UTC))
    night.pass_quarters(48, kill_at=datetime(2027, 3, 14, 7, tzinfo=UTC))
    [slot] = night.line("half_past_two").slots
    assert (local(slot.slot_at), slot.fate) == ("14 Mar 03:00 -0400", "fired")
    assert slot.reason == "02:30 does not exist that day in America/New_York; 03:00 stands for it"
    assert night.walls("half_past_one") == ["14 Mar 01:30 -0500"]
    spaced_by_quarters(night)


@pytest.mark.slow
def test_the_clock_goes_back(night: Night) -> None:
    """01:30 comes twice on 7 November 2027: once, the first time."""
    night.begin(at=datetime(2027, 11, 6, 23, tzinfo=UTC))
    night.pass_quarters(48, kill_at=datetime(2027, 11, 7, 6, 30, tzinfo=UTC))
    assert night.walls("half_past_one") == ["07 Nov 01:30 -0400"]
    assert night.walls("half_past_two") == ["07 Nov 02:30 -0500"]
    spaced_by_quarters(night)


def spaced_by_quarters(night: Night) -> None:
    """Check that both kinds of every 15 minutes kept real spacing, and each slot is one run."""
    for name in ("quarters", "interval"):
        slots = night.line(name).slots
        assert len(slots) == 48
        assert {later.slot_at - slot.slot_at for slot, later in pairwise(slots)} == {QUARTER * SECOND}
    assert night.one_run_each()


def test_unknown_zones_are_refused(night: Night) -> None:
    """On creation, naming the zone; nothing is written."""
    night.store.transact_now(runs.register, [("report", 1, "m:report")])
    with pytest.raises(UsageError, match="there is no time zone 'America/New York'"):
        asyncio.run(night.client.create_schedule("s", "report", "0 9 * * *", zone="America/New York"))
    assert asyncio.run(night.client.schedules()) == []
