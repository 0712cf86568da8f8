"""The tormentor: one fault after the other, chosen by a seed. The schedule repeats; what it meets does not.

    kill       SIGKILL a worker
    drain      SIGTERM a worker
    stop       SIGSTOP a worker, for less than its lease or for longer, then SIGCONT
    clock      step the wall clock of a worker (on SQLite, where the machine's clock is the store's: of everybody)
    full       let the store's disk be full for a moment
    crash      PostgreSQL: SIGKILL the postmaster, start it again
    backend    PostgreSQL: SIGKILL one of its processes, so that it ends all others and recovers
    cut        PostgreSQL: end every connection
    link       two hosts: take the link between one and the server down, for a moment or for longer than its leases

Faults overlap: while a worker is stopped another one is killed and the server crashes. Whatever was begun is ended.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.faults.places import ServerPlace
from tests.faults.stepped import step
from torpor import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from tests.faults.crew import Crew, Member
    from tests.faults.history import History
    from tests.faults.network import Network
    from tests.faults.places import Place

ANYWHERE = ("kill", "drain", "stop", "clock", "full")
SERVER = ("crash", "backend", "cut")
HOSTS = ("link",)
ALL = (*ANYWHERE, *SERVER, *HOSTS)
OFTEN = ("kill", "kill", "stop")
"""What a long trial has more of than of the others: these find most."""
BETWEEN_SECONDS = (0.2, 3.0)
STEPS_SECONDS = {"sqlite": (-9, -4, 4, 9), "postgres": (-400, -90, -20, 20, 90, 400)}
"""How far a clock is stepped. It goes back to the machine's with the next step. A step back of the store's own clock makes
timers wait for so long, hence its small ones."""
PROGRESS_CALLS = 5
"""So much must happen outside between two faults, if it can: a store that is never up is no trial."""
PROGRESS_SECONDS = 30.0


class World(NamedTuple):
    """What can be tormented. `offset` is the file with the step of the clock of everybody who is no worker."""

    crew: Crew
    place: Place
    network: Network | None
    history: History
    offset: Path


class Tormentor:
    """Chooses faults and brings them about."""

    def __init__(self, world: World, kinds: tuple[str, ...], seed: int, *, long: bool) -> None:
        """Plan nothing yet. A long trial has some kinds more often."""
        self._world = world
        self._kinds = [*kinds, *(kind for kind in OFTEN if long and kind in kinds)]
        self._random = Random(f"faults {seed}")  # noqa: S311 - a schedule that can be repeated
        self._bag: list[str] = []
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._stepped: set[str] = set()
        self.done = 0

    async def torment(self, until: Callable[[], bool], look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Go on until told to end; `look` is called all the time."""
        next_at = clock.monotonic()
        seen = 0
        while not until():
            now = clock.monotonic()
            await self._undo(now)
            calls = self._world.history.count("call")
            if now >= next_at and (calls - seen >= PROGRESS_CALLS or now >= next_at + PROGRESS_SECONDS):
                await self._one()
                next_at = clock.monotonic() + self._random.uniform(*BETWEEN_SECONDS)
                seen = calls
            await look()

    async def relent(self) -> None:
        """End every fault that was begun, and see to it that the store is up."""
        await self._undo(float("inf"))
        for name in list(self._stepped):
            self._set_clock(name, 0)
        await asyncio.to_thread(self._world.place.mend)

    async def _undo(self, now: float) -> None:
        due = [one for one in self._later if one[0] <= now]
        self._later = [one for one in self._later if one[0] > now]
        for _, undo in sorted(due, key=lambda one: one[0]):
            await asyncio.to_thread(undo)

    def _in(self, seconds: float, undo: Callable[[], None]) -> None:
        self._later.append((clock.monotonic() + seconds, undo))

    async def _one(self) -> None:
        """Bring the next fault about: each kind in its turn, in an order of its own each time."""
        if not self._bag:
            self._bag = self._random.sample(self._kinds, len(self._kinds))
        kind = self._bag.pop()
        said = await getattr(self, f"_{kind}")()
        self._world.history.add("fault", kind=kind, **said)
        self.done += 1

    def _member(self) -> Member:
        members = self._world.crew.members
        return self._random.choice([one for one in members if one.alive and not one.frozen] or members)

    def _for(self, lease_seconds: float, *, least: float = 0.0) -> float:
        """Return a time shorter than a lease, or longer."""
        short, long = self._random.uniform(0.2, 0.7), self._random.uniform(1.3, 2.5)
        return lease_seconds * short if self._random.random() < 0.5 else max(lease_seconds * long, least)

    # the faults; each returns what is to be remembered of it

    async def _kill(self) -> dict[str, Any]:
        member = self._member()
        self._world.crew.kill(member)
        return {"worker": member.name}

    async def _drain(self) -> dict[str, Any]:
        member = self._member()
        self._world.crew.drain(member)
        return {"worker": member.name}

    async def _stop(self) -> dict[str, Any]:
        member = self._member()
        seconds = self._for(member.lease_seconds)
        self._world.crew.freeze(member)
        self._in(seconds, lambda: self._world.crew.thaw(member))
        return {"worker": member.name, "seconds": seconds, "lease_seconds": member.lease_seconds}

    async def _clock(self) -> dict[str, Any]:
        kind = self._world.place.kind
        name = "" if kind == "sqlite" else self._member().name
        seconds = 0 if name in self._stepped else self._random.choice(STEPS_SECONDS[kind])
        self._set_clock(name, seconds)
        return {"worker": name, "seconds": seconds}

    def _set_clock(self, name: str, seconds: int) -> None:
        """Step the clock of a worker, or of everybody; 0 puts it right."""
        (self._stepped.add if seconds else self._stepped.discard)(name)
        for member in self._world.crew.members:
            if name in {"", member.name}:
                step(member.offset, seconds * clock.SECOND)
        if not name:
            step(self._world.offset, seconds * clock.SECOND)

    async def _full(self) -> dict[str, Any]:
        disk = self._world.place.disk
        assert disk is not None
        seconds = self._random.uniform(0.5, 4.0)
        await asyncio.to_thread(disk.fill)
        self._in(seconds, self._room)
        return {"seconds": seconds}

    def _room(self) -> None:
        """Give a full disk its space back. A server that gave up on it is started again."""
        assert self._world.place.disk is not None
        self._world.place.disk.clear()
        self._world.place.mend()

    async def _crash(self) -> dict[str, Any]:
        server = self._server
        seconds = self._random.uniform(0.0, 2.0)
        await asyncio.to_thread(server.kill)
        self._in(seconds, server.mend)
        return {"seconds": seconds}

    async def _backend(self) -> dict[str, Any]:
        await asyncio.to_thread(self._server.kill_backend, self._random.choice)
        return {}

    async def _cut(self) -> dict[str, Any]:
        try:
            return {"connections": await asyncio.to_thread(self._server.cut)}
        except Exception as away:  # noqa: BLE001 - it may just be down by another fault
            return {"connections": 0, "why": type(away).__name__}

    @property
    def _server(self) -> ServerPlace:
        assert isinstance(self._world.place, ServerPlace)
        return self._world.place

    async def _link(self) -> dict[str, Any]:
        network = self._world.network
        assert network is not None
        number = self._random.randrange(len(network.hosts))
        seconds = self._for(max(one.lease_seconds for one in self._world.crew.members), least=14.0)
        network.cut(number)
        self._in(seconds, lambda: network.heal(number))
        return {"host": number, "seconds": seconds}
