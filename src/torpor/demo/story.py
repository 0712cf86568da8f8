"""What is done to whom: a worker killed inside an effect, another frozen past its lease, and what becomes of the run.

Nothing here is hoped for. The service holds its answer to one publication, so the worker that waits for it is between
"it happened" and "it is recorded" for as long as it takes to kill it. It holds its answer to one later question, and
whoever waits for that is frozen until its lease is over and the third has taken the run. Who holds the run is asked of
the store, which knows the worker's process.

Everything is settled from outside: what became of the unknown effect is asked of the service that counted it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from torpor.core.ids import decode, wait_name
from torpor.core.journal import RESOLVES, Kind
from torpor.core.replay import CallKind, kind_of, name_of, shown
from torpor.core.run import State
from torpor.core.wait import WaitKind
from torpor.demo import asking
from torpor.demo.crew import COUNTER
from torpor.demo.program import Audit
from torpor.demo.proof import read_journal
from torpor.demo.strip import Cell
from torpor.errors import Conflict, TorporError
from torpor.store import values
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from torpor.client import Client
    from torpor.core.journal import Stored
    from torpor.demo.crew import Crew, Event, Member
    from torpor.demo.folder import Folder
    from torpor.demo.place import Place
    from torpor.demo.screen import Screen
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import RunRow, WaitRow

WORKERS = ("w1", "w2", "w3")
LOOK_SECONDS = 0.05
FREEZES = 5
"""So often a freeze is tried: a process can be frozen while it holds what all others need."""
WRITE_SECONDS = 5.0
"""A store that takes this long to write is held by the frozen process."""


class Story:
    """One demo, from the first worker to the last. What was measured stands in its fields."""

    def __init__(self, client: Client, crew: Crew, screen: Screen, place: Place, folder: Folder) -> None:
        """Begin nothing yet."""
        self._client = client
        self._store = client.store
        self._crew = crew
        self._screen = screen
        self._place = place
        self._folder = folder
        self.run_name = ""
        self.run_id = 0
        self.port = 0
        self.kills = 0
        self.settled = 0
        self.fenced = 0
        self.takeover_ms = 0.0
        self.resume_ms = 0.0
        self.before: list[list[Stored]] = []
        """The journal as it was at the kill and at the freeze."""
        self._journal: list[Stored] = []
        self._news = asyncio.Event()
        self._row: RunRow | None = None
        self._waits: list[WaitRow] = []
        self._mark: Cell | None = None
        self._victim: Member | None = None
        """Who held the run when something was done to it, until another one took over."""

    # from beginning to end

    async def play(self, lease_seconds: float) -> dict[str, Any]:
        """Do everything, and return the run's result. Raises TorporError, TimeoutError."""
        self.port = await self._crew.start_counter()
        for name in WORKERS:
            await self._crew.start_worker(name, lease_seconds)
        for name in WORKERS:
            await self._crew.event(lambda event, name=name: (event["who"], event["event"]) == (name, "ready"))  # type: ignore[misc]
        count = len(self._folder.files)
        first = max(1, count // 3)
        later = max(first, 2 * count // 3)
        await asyncio.to_thread(asking.hold, self.port, publish=first, confirm=later)
        await self._start()
        looking = asyncio.create_task(self._look())
        try:
            await self._beside(looking, self._acts(lease_seconds))
            result: dict[str, Any] = await self._client.result(self.run_name, timeout_seconds=60)
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
        self._screen.run(self.run_name, self._published(), count, Cell.DONE)
        return result

    async def _beside(self, looking: asyncio.Task[None], acts: Any) -> None:
        """Do the acts while `looking` goes on; an error of either ends both."""
        acting = asyncio.ensure_future(acts)
        try:
            await asyncio.wait([looking, acting], return_when=asyncio.FIRST_COMPLETED)
            if not acting.done():
                await looking
            await acting
        finally:
            acting.cancel()

    async def _acts(self, lease_seconds: float) -> None:
        await self._kill_inside_an_effect()
        await self._freeze_past_its_lease(lease_seconds)
        await self._approve()

    async def _start(self) -> None:
        folder = self._folder
        state = Audit(folder.title, folder.root, self.port, self._place.report.absolute(), list(folder.files))
        self.run_name = (await self._client.start("audit", state)).run_id
        self.run_id = decode(self.run_name.rpartition("-")[2])

    # act one

    async def _kill_inside_an_effect(self) -> None:
        held = await self._crew.event(_held("publish"))
        holder = await self._holder()
        await self._remember()
        await self._check_that_it_is_between(held)
        killed_at = self._crew.kill(holder)
        self._victim = holder
        self.kills += 1
        what = f"publish of file {held['number']}"
        self._screen.event(
            f"{holder.name} SIGKILL inside {what}: the service has counted it, the journal has not", "red"
        )
        taken = await self._crew.event(self._taken_after(killed_at))
        self._took_over()
        self.takeover_ms = (taken["at"] - killed_at) * 1000
        known = self.before[-1]
        journal = await self._store.transact(read_journal, self.run_id, lane=Lane.READ)
        kept = sum(one == other for one, other in zip(known, journal, strict=False))
        self._screen.event(
            f"{taken['who']} took over in {self.takeover_ms / 1000:.2f} s, {kept} of {len(known)} recorded entries are there"
        )
        await self._until(lambda: self.settled > 0)
        await asyncio.to_thread(asking.release, self.port)
        await self._resumed(taken["at"])

    async def _check_that_it_is_between(self, held: Event) -> None:
        """Make sure that what is about to happen is what will be said of it."""
        counted = (await asyncio.to_thread(asking.counts, self.port)).get(held["key"])
        last = self.before[-1][-1]
        if counted is None or last.kind is not Kind.INTENT or not _is_publish(last.key or ""):
            raise TorporError(f"the service holds an answer, and the journal ends with {last.kind.word} {last.key}")

    def _took_over(self) -> None:
        self._victim, self._mark = None, Cell.TAKEOVER

    def _taken_after(self, moment: float) -> Any:
        return lambda event: event["event"] == "awake" and event["run"] == self.run_name and event["at"] > moment

    async def _resumed(self, moment: float) -> None:
        """Measure from the next claim to the first step or effect that really begins."""
        begins = await self._crew.event(lambda event: event["event"] == "begins" and event["at"] > moment)
        claims = [e["at"] for e in self._crew.members[begins["who"]].events if e["event"] == "awake"]
        claimed_at = max(at for at in claims if at <= begins["at"])
        self.resume_ms = max(self.resume_ms, (begins["at"] - claimed_at) * 1000)

    # act two

    async def _freeze_past_its_lease(self, lease_seconds: float) -> None:
        await self._crew.event(_held("confirm"))
        holder = await self._holder()
        await self._remember()
        frozen_at, taken = await self.frozen_until_taken(holder, lease_seconds)
        away = taken["at"] - frozen_at
        self._took_over()
        self._screen.event(f"{taken['who']} took over after {away:.1f} s: a lease is {lease_seconds:g} s, and was over")
        await asyncio.to_thread(asking.release, self.port)
        thawed_at = self._crew.thaw(holder)
        await self._crew.event(
            lambda e: (
                e["who"] == holder.name and e["event"] == "lost" and e["run"] == self.run_name and e["at"] > thawed_at
            )
        )
        self.fenced += 1
        self._screen.event(
            f"{holder.name} SIGCONT after {thawed_at - frozen_at:.1f} s: it was fenced, and wrote nothing"
        )
        await self._resumed(taken["at"])

    async def frozen_until_taken(self, holder: Member, lease_seconds: float) -> tuple[float, Event]:
        """Freeze until another one has the run. A process frozen in a transaction stops everybody: then, again."""
        for _ in range(FREEZES):
            frozen_at, self._victim = self._crew.freeze(holder), holder
            if await writable(self._store):
                self._screen.event(f"{holder.name} SIGSTOP in a step: it holds the run and does nothing", "red")
                with suppress(TimeoutError):
                    taken = await self._crew.event(self._taken_after(frozen_at), seconds=3 * lease_seconds + 5)
                    return frozen_at, taken
                self._screen.event(f"{holder.name} was frozen while it held a lock of the database; once more")
            self._crew.thaw(holder)
            await asyncio.sleep(LOOK_SECONDS)
        raise TorporError(f"{holder.name} could not be frozen {FREEZES} times without stopping the whole store")

    # act three

    async def _approve(self) -> None:
        await self._until(lambda: any(self._open(WaitKind.APPROVAL)))
        wait = next(iter(self._open(WaitKind.APPROVAL)))
        leases = await self._store.transact(lambda tx: tx.leases([self.run_id]), lane=Lane.READ)
        entry = next(entry for entry in self._journal if entry.seq == wait.seq)
        digest = str(_content(entry)["digest"])
        holders = "nobody holds it, no process is needed" if not leases else "its worker is about to let it go"
        self._screen.event(f"asleep for approval: {holders}", "bold yellow")
        await self._client.approve(wait_name(self.run_id, wait.seq), by="demo", digest=digest)
        self._screen.event(f'"{wait.title}" approved by demo')

    # looking on

    async def _look(self) -> None:
        """Follow the run in the store, show it, and settle what is unknown, until cancelled."""
        while True:
            await self._read()
            self._show()
            for wait in self._open(WaitKind.ATTENTION):
                await self._settle(wait)
            self._news.set()
            await asyncio.sleep(LOOK_SECONDS)

    async def _read(self) -> None:
        after = self._journal[-1].seq if self._journal else 0
        found, self._row, self._waits = await self._store.transact(_now, self.run_id, after, lane=Lane.READ)
        self._journal += found

    def _show(self) -> None:
        members = [member for member in self._crew.members.values() if member.name != COUNTER]
        self._screen.crew(members)
        cell, self._mark = self._mark or self._cell(members), None
        self._screen.run(self.run_name, self._published(), len(self._folder.files), cell)

    def _published(self) -> int:
        return sum(entry.kind in RESOLVES and _is_publish(entry.key or "") for entry in self._journal)

    def _cell(self, members: list[Member]) -> Cell:
        state = self._row.state if self._row is not None else State.READY
        if state is State.WAITING:
            asks = Cell.UNKNOWN if any(self._open(WaitKind.ATTENTION)) else Cell.PERSON
            return asks if any(wait.kind.for_person for wait in self._waits) else Cell.ASLEEP
        if state is State.RUNNING:
            stalled = {"killed", "frozen"} & {member.state for member in members if member is self._victim}
            return Cell.STALLED if stalled else Cell.AWAKE
        return Cell.READY

    def _open(self, kind: WaitKind) -> list[WaitRow]:
        waiting = self._row is not None and self._row.state is State.WAITING
        return [wait for wait in self._waits if waiting and wait.kind is kind and wait.answered_at is None]

    async def _until(self, true: Any) -> None:
        while not true():
            self._news.clear()
            await self._news.wait()

    async def _settle(self, wait: WaitRow) -> None:
        """Settle an unknown effect from the service's own count: it happened, with its receipt, or it is done again."""
        entry = next((entry for entry in self._journal if entry.seq == wait.seq), None)
        if entry is None:
            return
        asked = _content(entry)
        if asked.get("trouble") != "unknown_effect":
            raise TorporError(f"{self.run_name} waits for a person: {wait.title}", hint=f"torpor show {self.run_name}")
        counted = (await asyncio.to_thread(asking.counts, self.port)).get(str(asked["key"]))
        name = wait_name(self.run_id, wait.seq)
        label = shown(entry.key or "")
        try:
            if counted is None:
                self._screen.event(f"? {label} is unknown; the service counted 0", "bold magenta")
                await self._client.answer(name, again=True, by="demo")
                self._screen.event(f"  settled: torpor answer {name} --again")
            else:
                receipts = counted["receipts"]
                what = f"? {label} of {counted['name']} is unknown; the service counted {len(receipts)}"
                self._screen.event(what, "bold magenta")
                await self._client.answer(name, happened=receipts[0], by="demo")
                self._screen.event(f"  settled: torpor answer {name} --happened {receipts[0]}")
        except Conflict:
            return  # the attempt that began it settled it late, or it was read a moment too early
        self.settled += 1

    async def _remember(self) -> None:
        self.before.append(await self._store.transact(read_journal, self.run_id, lane=Lane.READ))

    async def _holder(self) -> Member:
        """Return the process that holds the run, as the store knows it."""
        pid = await self._store.transact(_pid, self.run_id)
        return self._crew.by_pid(pid)


async def writable(store: Store, within_seconds: float = WRITE_SECONDS) -> bool:
    """Whether a transaction that writes gets its turn in time."""
    writing = asyncio.ensure_future(store.transact(lambda tx: tx.now()))
    done, _ = await asyncio.wait([writing], timeout=within_seconds)
    if not done:  # it comes to its end once the turn is free
        writing.add_done_callback(lambda late: late.cancelled() or late.exception())
    return bool(done)


def _held(kind: str) -> Any:
    return lambda event: event["event"] == "held" and event["kind"] == kind


def _is_publish(key: str) -> bool:
    return bool(key) and kind_of(key) is CallKind.EFFECT and name_of(key) == "publish"


def _content(entry: Stored) -> dict[str, Any]:
    if entry.kind is not Kind.WAIT:
        raise AssertionError(f"entry {entry.seq} opened a wait and is {entry.kind.word}")
    content: Any = values.plain(entry.body or b"{}")
    return dict(content)


def _now(tx: Tx, run_id: int, after: int) -> tuple[list[Stored], RunRow, list[WaitRow]]:
    return read_journal(tx, run_id, after), tx.get_runs([run_id])[run_id], tx.waits([run_id])


def _pid(tx: Tx, run_id: int) -> int:
    lease = tx.leases([run_id]).get(run_id)
    rows = {row.id: row.pid for row in tx.workers()}
    if lease is None or lease.worker not in rows:
        raise TorporError("nobody holds the run, though it waits for an answer of the service")
    return rows[lease.worker]
