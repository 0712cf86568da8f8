"""The sweep: the agent run again and again, its worker dying one commit point later each time; and three times frozen.

A place has one point more than the last run had: in that run the worker did not die, and the next place is begun. Two runs
go on side by side, each with its own repository, its own workers, and its own tag in the store, so that nobody takes
another's run.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from torpor import clock
from torpor.demo.agent import repository
from torpor.demo.agent.errand import PROMPT, Errand
from torpor.demo.agent.play import Play, Played
from torpor.demo.agent.proof import Point, Proof
from torpor.demo.story import writable
from torpor.errors import TorporError
from torpor.testing.mortal import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torpor.client import Client
    from torpor.demo.agent.workers import Workers

SIDE_BY_SIDE = 2
TRIES = 5
"""So often a freeze is tried."""
USUAL_LEASE_SECONDS = 30.0
FREEZE_LEASE_SECONDS = 2.0
"""A frozen worker is away for longer than this."""
PLACES = (Place.AFTER, Place.BEFORE, Place.ACTED)
FREEZES = ((Place.ACTED, "model"), (Place.ACTED, "commit"), (Place.ACTED, "check"))
"""Between an answer and its record, between the commit and its record, in the middle of the rest."""


@dataclass(slots=True)
class Sweep:
    """All points of one sweep. `every` takes only each so many-th of them; `told` is called after each."""

    client: Client
    workers: Workers
    folder: Path
    url: str
    prefix: str
    """What the tags of its runs begin with: nobody else's do."""
    every: int = 1
    told: Callable[[Point, Proof], None] = lambda _point, _proof: None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    async def undisturbed(self) -> Played:
        """Run it once without any death. Raises TorporError."""
        errand, play = await self._prepared(Place.UNDISTURBED, 0)
        await play.start(PROMPT)
        played = await play.to_the_end()
        self._tidy(errand)
        return played

    async def all(self, proof: Proof) -> None:
        """Die everywhere, and compare. Raises TorporError for what is no finding: a store that is gone, a broken tape."""
        for place in PLACES:
            await self._side_by_side(self._deaths(place), proof)
        await self._side_by_side(((place, 1, what) for place, what in FREEZES), proof)

    def _deaths(self, place: Place) -> Iterator[tuple[Place, int, str]]:
        first = 1 + list(PLACES).index(place) % self.every
        return ((place, number, "") for number in count(first, self.every))

    async def _side_by_side(self, deaths: Iterator[tuple[Place, int, str]], proof: Proof) -> None:
        """Go through the deaths of a place until there is none any more."""
        over = False

        async def go() -> None:
            nonlocal over
            while not over and (death := next(deaths, None)) is not None:
                errand, point, played = await self.one(*death)
                if point is None:
                    over = True
                elif proof.take([point], played):
                    self.told(point, proof)
                else:
                    self.told(point, proof)
                    continue  # its repository and logs are kept
                self._tidy(errand)

        lanes = [asyncio.create_task(go()) for _ in range(SIDE_BY_SIDE)]
        try:
            await asyncio.gather(*lanes)
        finally:
            for lane in lanes:
                lane.cancel()

    async def one(self, place: Place, number: int, what: str = "") -> tuple[Errand, Point | None, Played]:
        """Run it once with a death, or a freeze if `what` is said; no point if the worker never came there."""
        for _ in range(TRIES):
            errand, point, played = await self._tried(place, number, what)
            if not what or self._followed_by_another(errand):
                return errand, point, played
            self._tidy(errand)  # it was frozen with a lock that everybody needs, and had to be thawed: once more
        raise TorporError(f"a worker could not be frozen {TRIES} times without stopping the whole store")

    async def _tried(self, place: Place, number: int, what: str) -> tuple[Errand, Point | None, Played]:
        errand, play = await self._prepared(place, number, what)
        await play.start(PROMPT)
        survivor = asyncio.create_task(self._followed(errand))
        try:
            played = await play.to_the_end()
        finally:
            survivor.cancel()
            await asyncio.gather(survivor, return_exceptions=True)
        point = self._point(errand)
        if point is not None and errand.freeze and self._followed_by_another(errand):
            await self._thawed(errand)
            played = replace(played, commits=await asyncio.to_thread(repository.commits, errand.repository))
        return errand, point, played

    async def _prepared(self, place: Place, number: int, what: str = "") -> tuple[Errand, Play]:
        """Make a repository, and have a worker ready that will die."""
        name = f"{self.prefix}-{next(self._numbers):03}"
        folder = self.folder / name
        await asyncio.to_thread(repository.make, folder / "repository")
        lease = FREEZE_LEASE_SECONDS if what else USUAL_LEASE_SECONDS
        errand = Errand(
            who=f"{name}-w1",
            url=self.url,
            folder=str(folder),
            tag=name,
            lease_seconds=lease,
            place=place.value,
            point=number,
            what=what,
            freeze=bool(what),
        )
        self.workers.start(errand)
        await self.workers.ready(errand.who)
        return errand, Play(self.client, self.workers, folder, name)

    async def _followed(self, errand: Errand) -> None:
        """Bring another worker once the first one is dead, or frozen and in nobody's way."""
        word = "frozen" if errand.freeze else "ended"
        while True:
            await self.workers.event(lambda event: event.get("who") == errand.who and event["event"] == word)
            if not errand.freeze or await writable(self.client.store):
                break
            self.workers.signal(errand.who, signal.SIGCONT)  # it was frozen with a lock that everybody needs
            return
        self.workers.start(
            replace(errand, who=f"{errand.tag}-w2", place=Place.UNDISTURBED.value, lease_seconds=USUAL_LEASE_SECONDS)
        )

    async def _thawed(self, errand: Errand) -> None:
        """Thaw a frozen worker, and return once it knows that the run is not its own any more."""
        thawed_at = clock.monotonic()
        self.workers.signal(errand.who, signal.SIGCONT)
        await self.workers.event(
            lambda event: event["who"] == errand.who and event["event"] in {"lost", "ended"} and event["at"] > thawed_at
        )

    def _followed_by_another(self, errand: Errand) -> bool:
        return bool(self.workers.of(f"{errand.tag}-w2"))

    def _point(self, errand: Errand) -> Point | None:
        for event in self.workers.of(errand.who):
            if event["event"] in {"killed", "frozen"}:
                return Point(Place(errand.place), errand.point, event["what"], errand.freeze)
        return None

    def _tidy(self, errand: Errand) -> None:
        """End the run's workers, and remove what it left."""
        for who in (f"{errand.tag}-w1", f"{errand.tag}-w2"):
            self.workers.signal(who, signal.SIGKILL)
        shutil.rmtree(errand.folder, ignore_errors=True)
