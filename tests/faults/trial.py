"""A trial: a store, workers, load, torment; then calm, until every run has ended; then the history is judged."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.checks import judge
from tests.faults.crew import Crew, Member
from tests.faults.ending import read_all
from tests.faults.history import History
from tests.faults.load import TENANT, Load
from tests.faults.network import Host, Network
from tests.faults.outside import Outside
from tests.faults.places import FilePlace, Place, ServerPlace
from tests.faults.stepped import clock_of
from tests.faults.torment import ANYWHERE, HOSTS, SERVER, Tormentor, World
from torpor import clock
from torpor.client import Client
from torpor.errors import StoreError
from torpor.store.opening import open_store

LEASES_SECONDS = (3.0, 5.0, 8.0, 3.0)
"""The workers, by their leases."""
LOOK_SECONDS = 0.1
TELL_SECONDS = 10.0
CALM_SECONDS = 600.0
"""So long the runs that are open when the faults end may take to end without any."""
ANEW_SECONDS = 20.0


@dataclass(frozen=True)
class Wanted:
    """What a trial is to be: so many minutes of torment, or so many faults. `kinds` are the faults."""

    store: str
    kinds: tuple[str, ...]
    seed: int
    minutes: float = 0.0
    faults: int = 0
    workers: int = len(LEASES_SECONDS)
    open_runs: int = 24
    runs_per_second: float = 4.0

    @property
    def command(self) -> str:
        """Return the line that repeats it."""
        length = f"MINUTES={self.minutes:g}" if self.minutes else f"ARGS='--count {self.faults}'"
        return f"make faults {length} STORE={self.store} SEED={self.seed} FAULTS={','.join(self.kinds)}"


@dataclass
class Record:
    """What came of a trial."""

    command: str
    wrong: list[str]
    folder: Path
    seconds: float
    counts: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Return it for people."""
        lines = [f"{name:<12} {value}" for name, value in self.counts.items()]
        verdict = self.wrong[:40] or ["nothing lost, nothing repeated"]
        return "\n".join([self.command, f"{'seconds':<12} {self.seconds:.0f}", *lines, *verdict])


def kinds_for(store: str, *, hosts: bool) -> tuple[str, ...]:
    """Return every fault that a store can meet."""
    return (*ANYWHERE, *(SERVER if store == "postgres" else ()), *(HOSTS if store == "postgres" and hosts else ()))


class Trial:
    """One trial."""

    def __init__(self, wanted: Wanted, tell: Any = lambda _line: None) -> None:
        """Put everything up; nothing runs yet. `tell` hears a line from time to time."""
        self._wanted, self._tell = wanted, tell
        self.folder = Path(tempfile.mkdtemp(prefix="torpor-faults-"))
        self.folder.chmod(0o755)
        self._closing = ExitStack()
        try:
            self._put_up()
        except BaseException:
            self._closing.close()
            raise

    def _put_up(self) -> None:
        wanted = self._wanted
        self.history = History(self.folder / "history.jsonl")
        self._closing.callback(self.history.close)
        self._place: Place = (ServerPlace if wanted.store == "postgres" else FilePlace)(
            self.folder, disk="full" in wanted.kinds
        )
        self._closing.callback(self._place.close)
        self._network = None
        hosts = [Host(self.folder / "host")]
        if "link" in wanted.kinds:
            self._network = Network(self.folder)
            self._closing.callback(self._network.close)
            hosts = self._network.hosts
        self._outside = Outside(self.history, "0.0.0.0" if self._network is not None else "127.0.0.1")  # noqa: S104 - hosts reach it
        self._closing.callback(self._outside.close)
        self._offset = self.folder / "offset"
        self._offset.write_bytes(bytes(8))
        self._store = open_store(self._place.url(), clock=clock_of(self._offset))
        self._closing.callback(self._store.close_now)
        self._crew = Crew(self._place, self._outside.port, self.history)
        self._closing.callback(self._crew.dismiss)
        self._crew.hire(
            Member(f"w{n}", LEASES_SECONDS[n % len(LEASES_SECONDS)], hosts[n % len(hosts)], self.folder)
            for n in range(wanted.workers)
        )

    def close(self, *, keep: bool) -> None:
        """Take everything down; with `keep` the folder with history and logs stays."""
        self._closing.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def run(self) -> Record:
        """Torment, be calm, judge."""
        began_at = clock.monotonic()
        wanted = self._wanted
        self._load = Load(Client(self._store), self._outside, self.history, wanted.seed)
        world = World(self._crew, self._place, self._network, self.history, self._offset)
        self._tormentor = Tormentor(world, wanted.kinds, wanted.seed, long=wanted.minutes > 0)
        self._told_at = self._begun_at = self._looked_at = began_at
        await self._make_known()

        def over() -> bool:
            return self._tormentor.done >= wanted.faults and clock.monotonic() - began_at >= wanted.minutes * 60

        await self._tormentor.torment(over, self._look)
        await self._tormentor.relent()
        await self._calm()
        await self._load.end()
        self._crew.dismiss()
        for line in self._crew.noticed():
            self.history.add("noticed", line=line)
        await asyncio.to_thread(read_all, self._store, self._place, self.history)
        return Record(wanted.command, judge(self.history), self.folder, clock.monotonic() - began_at, self._counts())

    async def _make_known(self) -> None:
        """Return once a worker has made the program known, and give all runs a budget."""
        while True:
            with suppress(StoreError):
                if await self._store.transact(lambda tx: list(tx.programs())):
                    break
            await self._load.pause(LOOK_SECONDS)
            self._crew.look()
        await self._load.client.set_budget(f"tenant:{TENANT}", 1_000_000)

    async def _look(self, *, starts: bool = True) -> None:
        """Do everything that is done all the time."""
        now = clock.monotonic()
        self._crew.look()
        due = round((now - self._begun_at) * self._wanted.runs_per_second)
        room = self._wanted.open_runs - len(self._load.open_runs) - self._load.starting
        if due and starts:
            self._begun_at = now
            for _ in range(min(due, room)):
                self._load.begin()
        if now - self._looked_at > 5 * LOOK_SECONDS:
            await self._load.look()
            await self._load.answer()
            self._looked_at = clock.monotonic()
        if now - self._told_at > TELL_SECONDS:
            self._told_at = now
            self._tell(self._line())
        await self._load.pause(LOOK_SECONDS)

    async def _calm(self) -> None:
        """Let every run end. A worker that a person suspects of an effect that may still start is ended for it."""
        self._tell("calm")
        self.history.add("fault", kind="calm")
        ends_at, anew_at = clock.monotonic() + CALM_SECONDS, 0.0
        while (self._load.open_runs or self._load.starting) and clock.monotonic() < ends_at:
            if clock.monotonic() > anew_at and (self._load.undecided or not anew_at):
                anew_at = clock.monotonic() + ANEW_SECONDS
                for member in self._crew.members:
                    self._crew.kill(member)
            await self._look(starts=False)

    def _line(self) -> str:
        counts = self._counts()
        said = ", ".join(f"{name} {counts[name]}" for name in ("runs", "effects", "signals", "unknown"))
        faults = " ".join(f"{kind}={n}" for kind, n in sorted(counts["faults"].items()))
        return f"{said}, open {len(self._load.open_runs)}; {faults}"

    def _counts(self) -> dict[str, Any]:
        kinds = [line["kind"] for line in self.history.of("fault") if line["kind"] != "calm"]
        ends = [line["state"] for line in self.history.of("ended") if line["key"]]
        return {
            "runs": self.history.count("started"),
            "ended": {state: ends.count(state) for state in sorted(set(ends))},
            "effects": self.history.count("call"),
            "signals": self.history.count("sent"),
            "answers": self.history.count("answered"),
            "unknown": self.history.count("settled"),
            "poison": self.history.count("trouble"),
            "processes": self.history.count("left"),
            "faults": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        }


def commit() -> str:
    """Return the commit that is tried, `-dirty` if files differ from it."""
    said = subprocess.run(["git", "describe", "--always", "--dirty"], check=False, capture_output=True, text=True)
    return said.stdout.strip()


def tried(wanted: Wanted, tell: Any = lambda _line: None) -> Record:
    """Run a trial, and return what came of it; its folder stays if something is wrong."""
    trial = Trial(wanted, tell)
    keep = True
    try:
        record = asyncio.run(trial.run())
        keep = bool(record.wrong)
        return record
    finally:
        trial.close(keep=keep)
