"""The client: what a program or a person asks of torpor from outside. Each call is one transaction of the engine.

    async with Client.connect("sqlite:///torpor.db") as client:
        started = await client.start("greet", "Ana", key="greet-ana")
        print(await client.result(started.run_id))

Nothing here is repeated by itself: after StoreUnavailable the caller decides, and a `key` makes a repetition harmless.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from torpor.clock import as_micros
from torpor.core.ids import wait_name
from torpor.core.lease import Proof
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.engine import runs, waits
from torpor.engine.decisions import Decision, decide, find_run
from torpor.engine.large import put_aside, read_whole
from torpor.engine.queries import facts, people
from torpor.engine.queries.doctor import Place, diagnose
from torpor.engine.queries.fleet import first_line, fleet, listed, run_lines
from torpor.engine.queries.show import show
from torpor.errors import Conflict, NeedsPerson, NotFound, RunCancelled, RunFailed, UsageError
from torpor.store import values
from torpor.store.protocol import Lane
from torpor.store.rows import Kept, NewSignal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from torpor.core.commit import Blob
    from torpor.engine.queries.doctor import Diagnosis
    from torpor.engine.queries.fleet import Fleet, RunLine
    from torpor.engine.queries.show import RunShown
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import WorkerRow
    from torpor.store.sqlite.tx import SqliteTx

POLL_SECONDS = 1.0
_FIRST_POLL_SECONDS = 0.05
CHECKED_BYTES = 256 << 20
"""A larger SQLite file is checked for damage only if asked: all of it is read."""


class Started(NamedTuple):
    """A run that was started. `created` is False when its key had been used: this is the run that was started then."""

    run_id: str
    created: bool


class _NotGiven:
    """What `happened` is when it was not said: None is an outcome too."""


_NOT_GIVEN = _NotGiven()


class Client:
    """Starts runs, wakes them, decides for them and reads about them. Any number of clients may share a store.

    A run is named by its public id (`greet-7Q3D`) or its letters alone, a wait by `w-7q3d-3`. Every method raises
    StoreUnavailable if the store cannot be reached; NotFound and UsageError for an id that names nothing.
    """

    def __init__(self, store: Store) -> None:
        """Speak to an open store."""
        self.store = store

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, *, blobs: str | None = None) -> AsyncIterator[Client]:
        """Open a store that exists and close it at the end. `blobs` is where its large values are kept (`TORPOR_BLOBS`).

        Raises StoreError, UsageError for an URL of no known form.
        """
        from torpor.store.opening import open_store

        store = await asyncio.to_thread(open_store, url, create=False, blobs=blobs_address(blobs))
        try:
            yield cls(store)
        finally:
            await store.close()

    # starting and stopping

    async def start(
        self,
        program: str,
        input: Any = None,  # noqa: A002 - the word that authors use
        *,
        key: str | None = None,
        tenant: str = "default",
        priority: int = 0,
        at: datetime | None = None,
    ) -> Started:
        """Start a run of a program that a worker has made known; with `at` (an aware datetime) not before then.

        The same `key` of the same program finds the same run, however often it is said. A lower `priority` number goes
        first. Raises UsageError for an unknown program, UnstorableValue for an input that would not come back.
        """
        body, blob = put_aside(values.encode(input, path="input"))
        wanted = runs.Start(program, body, key, tenant, priority, None if at is None else _moment(at), blob)
        done = (await self.store.transact(runs.start, [wanted]))[0]
        return Started(done.name, done.created)

    async def cancel(self, run: str) -> State:
        """Ask a run to end as cancelled and return its state now; acknowledged means durable (G12)."""
        return await self.store.transact(_cancel, run)

    # waking

    async def signal(
        self, run: str, name: str, value: Any = None, *, key: str | None = None, sender: str | None = None
    ) -> bool:
        """Send a signal; it is kept if it comes early (G7). False: the run has seen this `key` before.

        Raises Conflict if the run has ended.
        """
        if not 0 < len(name) <= 200 or "\0" in name:  # noqa: PLR2004 - said in the message
            raise UsageError(f"a signal's name is a text of 1 to 200 letters without U+0000, not {name!r}")
        body, blob = put_aside(values.encode(value, path="value"))
        return await self.store.transact(_signal, run, NewSignal(0, name, body, key, sender), blob)

    async def approve(self, wait: str, *, by: str, note: str = "", digest: str | None = None) -> str:
        """Approve what a wait shows; with `digest` only if that is still what it shows. Returns the wait's id.

        The first decision wins (G10): Conflict says who was first, or that it changed since the caller looked.
        """
        return await self._decide(wait, {"approved": True, "by": by, "note": note}, WaitKind.APPROVAL, digest)

    async def deny(self, wait: str, *, by: str, note: str = "") -> str:
        """Deny what a wait shows. Raises as `approve`."""
        return await self._decide(wait, {"approved": False, "by": by, "note": note}, WaitKind.APPROVAL)

    async def answer(
        self, wait: str, *, by: str, happened: Any = _NOT_GIVEN, again: bool = False, fail: str | None = None
    ) -> str:
        """Settle a trouble, with exactly one of three answers. Returns the wait's id; raises as `approve`.

        `happened`: the effect did happen, and this is what it gave back (None if nothing). `again`: do it again, or try
        the run again. `fail`: it failed, for this reason.
        """
        said = [not isinstance(happened, _NotGiven), again, fail is not None]
        if sum(said) != 1:
            raise UsageError("an answer is exactly one of: it happened, do it again, it failed")
        content: dict[str, Any] = {"happened": happened} if said[0] else {"again": True} if again else {"fail": fail}
        return await self._decide(wait, {**content, "by": by}, WaitKind.ATTENTION)

    async def _decide(self, wait: str, content: dict[str, Any], kind: WaitKind, digest: str | None = None) -> str:
        row = await self.store.transact(decide, Decision(wait, content, kind, digest=digest))
        return wait_name(row.run_id, row.seq)

    # waiting

    async def result(
        self, run: str, *, timeout_seconds: float | None = None, person: Literal["wait", "raise"] = "wait"
    ) -> Any:
        """Wait until a run has ended and return its result.

        Raises RunFailed with the recorded error, RunCancelled, TimeoutError (the run goes on), and with
        `person="raise"` NeedsPerson as soon as only a person can help it on.
        """
        ended = await self.ended(run, timeout_seconds=timeout_seconds, person=person)
        return values.decode(ended)

    async def ended(
        self, run: str, *, timeout_seconds: float | None = None, person: Literal["wait", "raise"] = "wait"
    ) -> bytes:
        """Wait as `result` does, and return the result's body as it is stored: for callers without its classes."""
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def heard(topic: str) -> None:
            if topic == "ended":
                loop.call_soon_threadsafe(news.set)

        listener = await asyncio.to_thread(self.store.listen, heard)
        try:
            async with asyncio.timeout(timeout_seconds):
                pause = _FIRST_POLL_SECONDS
                while True:
                    news.clear()
                    found = await self.store.transact(_outcome, run, lane=Lane.READ)
                    if found.ended:
                        return _result(found)
                    if found.asks and person == "raise":
                        raise NeedsPerson(f"{found.name} needs a person: {found.asks}", hint="torpor inbox")
                    try:
                        await asyncio.wait_for(news.wait(), pause)
                    except TimeoutError:
                        pause = min(2 * pause, POLL_SECONDS)  # a short run is seen at once, a long one costs little
        finally:
            await asyncio.to_thread(listener.close)

    # reading

    async def get(self, run: str) -> RunLine:
        """Return how a run stands, with its reason and its open waits."""
        return await self.store.transact(_get, run, await self._gone(), lane=Lane.READ)

    async def show(self, run: str) -> RunShown:
        """Return a run in full: its story, its effects, its state and its result."""
        return await self.store.transact(show, run, gone=await self._gone(), lane=Lane.READ)

    async def inbox(self, *, limit: int = 100) -> people.Inbox:
        """Return every open wait for a person, oldest first, a bounded number."""
        return await self.store.transact(people.inbox, limit=limit, lane=Lane.READ)

    async def wait(self, wait: str) -> people.InboxItem:
        """Return one open wait for a person, in full. Raises NotFound; Conflict, with who decided it, if it is over."""
        return await self.store.transact(people.item, wait, lane=Lane.READ)

    async def fleet(self, *, limit: int = 50) -> Fleet:
        """Return the runs that are not asleep, the next to wake, the last that ended, and how many there are of each."""
        return await self.store.transact(fleet, gone=await self._gone(), limit=limit, lane=Lane.READ)

    async def doctor(self, *, check: bool | None = None) -> Diagnosis:
        """Return everything that is wrong or would be stuck in silence (G13), and whether it is safe to stop now.

        `check` reads an SQLite file whole to find damage; None does so while it is small.
        """
        found = await self.store.transact(facts.facts, lane=Lane.READ)
        gone = await asyncio.to_thread(_gone, self.store, found.workers)
        place = await self.store.transact(_place, self.store, check, lane=Lane.READ)
        schema = await asyncio.to_thread(self.store.schema)
        return diagnose(found, place._replace(schema=schema), gone)

    async def reset_clock(self) -> int:
        """Bring stored times that are far ahead of this machine's clock back to it; return how many rows changed.

        SQLite only, where the host's clock is the store's: UsageError elsewhere.
        """
        if self.store.kind != "sqlite":
            raise UsageError("this store's clock is its server's own", hint="set the server's clock right")
        return await self.store.transact(facts.reset_clock)

    async def list(
        self,
        *,
        states: Sequence[State] | None = None,
        program: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[RunLine]:
        """Return the newest runs that pass a filter, older than the run `before`; at most 200."""
        gone = await self._gone()
        return await self.store.transact(
            _list, gone=gone, states=states, program=program, limit=limit, before=before, lane=Lane.READ
        )

    async def _gone(self) -> frozenset[int]:
        """Return the workers whose death is proven, so that a run is not said to be on one of them."""
        rows = await self.store.transact(lambda tx: tx.workers(), lane=Lane.READ)
        return await asyncio.to_thread(_gone, self.store, rows)


def _moment(at: datetime) -> int:
    try:
        return as_micros(at)
    except ValueError as error:
        raise UsageError(f"at={at!r} has no time zone", hint="datetime(..., tzinfo=UTC)") from error


def _cancel(tx: Tx, run: str) -> State:
    return runs.cancel(tx, find_run(tx, run)[0].id)


def _signal(tx: Tx, run: str, signal: NewSignal, blob: Blob | None) -> bool:
    row, name = find_run(tx, run)
    if blob is not None:
        tx.put_blobs([(row.id, blob)])
    kept = waits.signal(tx, [signal._replace(run_id=row.id)])[0]
    if kept is Kept.FINAL:
        raise Conflict(f"{name} is {row.state.word}: nothing was kept", hint=f"torpor show {name}")
    if kept is Kept.NO_RUN:
        raise NotFound(f"there is no run {run}", hint="torpor ps lists them")
    return kept is Kept.NEW


class _Outcome(NamedTuple):
    """How a run stands: its state, whom it asks for what, and how it ended."""

    name: str
    state: State
    asks: str
    body: bytes

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""
        return self.state.final


def _outcome(tx: Tx, run: str) -> _Outcome:
    row, name = find_run(tx, run)
    if not row.state.final:
        asked = [w for w in tx.waits([row.id]) if w.kind.for_person and w.answered_at is None]
        waiting = row.state is State.WAITING and Flag.PERSON in row.flags
        asks = ", ".join(f"{wait.title} ({wait_name(row.id, wait.seq)})" for wait in asked)
        return _Outcome(name, row.state, asks if waiting else "", b"")
    last = tx.entries([(row.id, row.head)]).get((row.id, row.head))
    return _Outcome(name, row.state, "", read_whole(tx, last.body) if last is not None and last.body else b"null")


def _result(found: _Outcome) -> bytes:
    if found.state is State.COMPLETED:
        return found.body
    if found.state is State.CANCELLED:
        raise RunCancelled(f"{found.name} was cancelled", hint=f"torpor show {found.name}")
    recorded = values.plain(found.body)
    said = recorded if isinstance(recorded, dict) else {}
    kind, detail, where = (str(said.get(name, "")) for name in ("kind", "detail", "where"))
    place = f" ({where})" if where else ""
    message = f"{found.name} failed: {kind}: {detail}{place}"
    advice = f"{first_line(str(said['hint']))}; " if said.get("hint") else ""
    raise RunFailed(message, kind=kind, detail=detail, hint=f"{advice}torpor show {found.name}")


# reading


def _get(tx: Tx, run: str, gone: frozenset[int]) -> RunLine:
    return run_lines(tx, [find_run(tx, run)[0]], gone=gone)[0]


def _list(
    tx: Tx, *, gone: frozenset[int], states: Sequence[State] | None, program: str | None, limit: int, before: str | None
) -> Sequence[RunLine]:
    below = None if before is None else find_run(tx, before)[0].id
    return listed(tx, gone=gone, states=states, program=program, limit=limit, before=below)


def _gone(store: Store, workers: Sequence[WorkerRow]) -> frozenset[int]:
    """Return the workers whose death is proven. Blocking: a lock each."""
    return frozenset(row.id for row in workers if store.prove_death(row) is not Proof.NONE)


def _place(tx: Tx, store: Store, check: bool | None) -> Place:  # noqa: FBT001 - passed on
    """Return what is known of the database itself."""
    from pathlib import Path

    from torpor.store.sqlite import SqliteStore

    if not isinstance(store, SqliteStore):
        return Place(store.kind, without_password(store.url), "PostgreSQL", 0)
    from torpor.store.sqlite.store import integrity
    from torpor.store.sqlite.turnstile import holder, way_out

    database = cast("SqliteTx", tx).connection()
    version = f"SQLite {database.execute('SELECT sqlite_version()').fetchone()[0]}"
    if store.path == ":memory:":
        return Place(store.kind, "memory", version, 0)
    file, wal = Path(store.path), Path(f"{store.path}-wal")
    count = file.stat().st_size
    small = count <= CHECKED_BYTES if check is None else check
    complaint = integrity(database) if small else None
    damage = None if complaint is None else "" if complaint == "ok" else complaint
    wal_bytes = wal.stat().st_size if wal.exists() else 0
    found = holder(store.path)
    kept = (f"pid {found.pid} is stopped while it has the turn", way_out(found)) if found and found.frozen else ("", "")
    return Place(store.kind, store.path, version, 0, count, wal_bytes, damage, *kept)


def blobs_address(given: str | None = None) -> str:
    """Return where large values are kept: what was given, TORPOR_BLOBS, a `.env` file, or "" for the store itself."""
    if given is not None:
        return given
    if "TORPOR_BLOBS" in os.environ or not os.path.isfile(".env"):  # noqa: PTH113 - pathlib is not loaded for this
        return os.environ.get("TORPOR_BLOBS", "")
    from torpor.settings import Settings  # pydantic is loaded only where there is such a file

    return Settings().blobs


def without_password(url: str) -> str:
    """Return a store's address as it may be printed."""
    scheme, mark, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{login.partition(':')[0]}{at}{host}" if at else url
