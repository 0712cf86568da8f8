"""Where a demo keeps what it writes: the folder `.torpor` here, and the store. Both are its own while it lasts."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from torpor.core.lease import Proof
from torpor.core.run import State
from torpor.demo.program import app
from torpor.engine import runs
from torpor.errors import Conflict, UsageError
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import WorkerRow

FOLDER = Path(".torpor")
_UNFINISHED = [State.READY, State.WAITING, State.RUNNING]
_NAMES = frozenset(app.flows)


class Place(NamedTuple):
    """The folder, and the store's URL. `fresh` says that the store is the demo's own file, made anew each time."""

    folder: Path
    url: str
    fresh: bool

    @property
    def counts(self) -> Path:
        """The counting service's file."""
        return self.folder / "counts.jsonl"

    @property
    def report(self) -> Path:
        """The report that the audit writes."""
        return self.folder / "report.md"

    def log_of(self, name: str) -> Path:
        """The log of a process."""
        return self.folder / f"{name}.log"

    @property
    def shown(self) -> str:
        """The store's URL without its password."""
        parts = urlsplit(self.url)
        if parts.scheme == "sqlite" or not parts.netloc:
            return self.url
        user, at, host = parts.netloc.rpartition("@")
        query = "&".join(part for part in parts.query.split("&") if not part.startswith(("password=", "sslpassword=")))
        return urlunsplit(parts._replace(netloc=user.partition(":")[0] + at + host, query=query))

    def tidy(self, names: list[str]) -> None:
        """Remove logs and counts, when nothing went wrong and nobody wants to read them."""
        for path in (self.counts, *(self.log_of(name) for name in names)):
            path.unlink(missing_ok=True)


@contextmanager
def taken(store: str | None) -> Iterator[Place]:
    """Take the folder `.torpor` here for one demo; without `store`, with an empty database in it.

    Raises Conflict if another demo is using it, UsageError if it cannot be written or the store serves one process only.
    """
    if store is not None and (store in {":memory:", "sqlite:", "sqlite://"} or ":memory:" in store):
        raise UsageError(
            "a store in memory belongs to one process, and the demo has four",
            hint="leave --store out, or give sqlite:///FILE or postgresql://...",
        )
    try:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / ".gitignore").write_text("*\n", "ascii")
        lock = (FOLDER / "demo.lock").open("w")
    except OSError as error:
        raise UsageError(
            f"the demo cannot write to {Path.cwd() / FOLDER}: {error.strerror}", hint="run it in a folder of yours"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"a demo is running in {Path.cwd()}", hint="wait for it, or run this one elsewhere"
            ) from None
        if store is None:
            for path in FOLDER.glob("demo.db*"):
                path.unlink()
        (FOLDER / "report.md").unlink(missing_ok=True)
        yield Place(FOLDER, store or f"sqlite:///{FOLDER / 'demo.db'}", fresh=store is None)


def refuse_others(store: Store) -> None:
    """Raise Conflict if a store that was given serves other people's runs of the same name, or another demo. Blocking.

    The demo kills whoever holds its run; that must be a process of its own.
    """
    programs = {row.name: row for row in store.transact_now(lambda tx: tx.programs())}
    for flow in app.flows.values():
        row = programs.get(flow.name)
        if row is not None and row.source != flow.source:
            raise Conflict(
                f'the store has a program named "{flow.name}" of its own ({row.source})',
                hint="give the demo a store for itself, or leave --store out",
            )
    numbers = {row.id for name, row in programs.items() if name in _NAMES}
    rows: list[WorkerRow] = store.transact_now(lambda tx: tx.workers())
    alive = [row for row in rows if store.prove_death(row) is Proof.NONE and _serves(row, numbers)]
    if alive:
        names = ", ".join(f"{row.name} (process {row.pid})" for row in alive)
        raise Conflict(f"another demo works on this store: {names}", hint="wait for it, or use another store")


def _serves(row: WorkerRow, numbers: set[int]) -> bool:
    return any(str(number) in row.programs.strip("[]").replace(" ", "").split(",") for number in numbers)


def cancel_unfinished(tx: Tx) -> int:
    """Cancel audits that an interrupted demo left in the store, whose service is gone; return how many."""
    numbers = [row.id for row in tx.programs() if row.name in _NAMES]
    left = tx.list_runs(RunFilter(states=_UNFINISHED, programs=numbers, limit=1000)) if numbers else []
    for run in left:
        runs.cancel(tx, run.id)
    return len(left)
