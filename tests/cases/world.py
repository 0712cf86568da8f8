"""The world of a case: a database that real workers share, those workers, and a look at what they leave in it.

Nothing here sleeps: whoever waits looks again whenever the store gives a hint, and from time to time because hints may
be lost, until what it waits for is there or its patience ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cases import ahead
from tests.cases.telling import PORT
from tests.patience import PATIENCE_SECONDS
from tests.stores import raw
from torpor import clock
from torpor.core.ids import run_name
from torpor.core.run import State
from torpor.core.wait import WaitKind
from torpor.engine import runs, waits
from torpor.store import values
from torpor.store.opening import check_schema, open_store
from torpor.store.rows import NewSignal
from torpor.store.sqlite import turnstile
from torpor.testing import showing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.cases.outside import Outside
    from torpor.core.lease import Lease
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import Kept, RunRow

ROOT = Path(__file__).resolve().parents[2]
APPS = ROOT / "tests" / "cases" / "apps"
LOOK_AGAIN_SECONDS = 0.05
_NAKED = """SELECT count(*) FROM runs WHERE state = 3
    AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.run_id = runs.id)"""
assert State.RUNNING.value == 3


class Member:
    """A worker process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, store: Store) -> None:
        """Know a process by its log."""
        self.process = process
        self.pid = process.pid
        self._log = log
        self._database = getattr(store, "path", "")

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """Stop it where it is, and return once it stands; not while it keeps everybody from writing to a file.

        On PostgreSQL the server ends a transaction whose owner is silent, after 15 s.
        """
        turnstile.freeze(self.pid, self._database)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        """Ask it to drain, and return its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_SECONDS)

    @property
    def log(self) -> str:
        """What it wrote so far; a copy of it writes there too."""
        return self._log.read_text("utf-8", "replace")


class World:
    """One database, its workers and the outside world."""

    def __init__(self, url: str, folder: Path, outside: Outside) -> None:
        """Make the schema; start nothing."""
        self.url = url
        self.outside = outside
        self._folder = folder
        self._closing = ExitStack()
        self._news = threading.Event()
        self.members: list[Member] = []
        self._ahead, self._clock = 0, folder / "ahead"
        ahead.put(self._clock, 0)
        self.store: Store = open_store(url, clock=lambda: ahead.now(self._clock))
        self._closing.callback(self.store.close_now)
        check_schema(self.store)
        self._closing.callback(self.store.listen(lambda _: self._news.set()).close)

    def close(self) -> None:
        """Kill every worker that is left and close the store."""
        for member in self.members:
            if member.process.poll() is None:
                member.kill()
        self._closing.close()

    # workers

    def worker(self, app: str, *, name: str = "w0", lease_seconds: float = 60.0, options: Sequence[str] = ()) -> Member:
        """Start a worker process on `apps/APP.py`, and return once the store knows it."""
        log = self._folder / f"worker-{len(self.members)}.log"
        command = [sys.executable, "-m", "torpor", "worker", str(APPS / f"{app}.py")]
        usual = ["--store", self.url, "--name", name, "--lease-seconds", str(lease_seconds)]
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*command, *usual, *options],
                cwd=ROOT,
                env={**os.environ, PORT: str(self.outside.port), ahead.AHEAD: str(self._clock)},
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        member = Member(process, log, self.store)
        self.members.append(member)
        self.until(lambda: process.poll() is not None or self._knows(process.pid), f"worker {name} began")
        assert process.poll() is None, member.log
        return member

    def _knows(self, pid: int) -> bool:
        return any(row.pid == pid for row in self._ask(lambda tx: tx.workers()))

    # runs

    def start(self, program: str, state: Any = None) -> int:
        """Start a run and return its number."""
        wanted = runs.Start(program, values.encode(state, path="state"))
        started: list[runs.Started] = self._ask(lambda tx: runs.start(tx, [wanted]))
        return started[0].run_id

    def signal(self, run: int, name: str, value: Any = None) -> Kept:
        """Send a signal."""
        kept: list[Kept] = self.store.transact_now(
            waits.signal, [NewSignal(run, name, values.encode(value, path="value"))]
        )
        return kept[0]

    def cancel(self, run: int) -> None:
        """Ask a run to end as cancelled."""
        self._ask(lambda tx: runs.cancel(tx, run))

    def answer(self, run: int, **answer: Any) -> None:
        """Settle the one trouble of a run, as a person does."""
        [asked] = [wait for wait in self._ask(lambda tx: tx.waits([run])) if wait.kind is WaitKind.ATTENTION]
        body = values.encode({**answer, "by": "ada"}, path="answer")
        self._ask(lambda tx: waits.answer(tx, run, asked.seq, body, kinds=frozenset({WaitKind.ATTENTION})))

    # looking

    def run(self, run: int) -> RunRow:
        """Return a run's row."""
        row: RunRow = self._ask(lambda tx: tx.get_runs([run]))[run]
        return row

    def lease(self, run: int) -> Lease | None:
        """Return a run's lease."""
        lease: Lease | None = self._ask(lambda tx: tx.leases([run])).get(run)
        return lease

    def held(self, run: int) -> Lease:
        """Return the lease of a run that must have one."""
        lease = self.lease(run)
        assert lease is not None, self.run(run)
        return lease

    def journal(self, run: int) -> list[showing.Line]:
        """Return a run's journal."""
        lines: list[showing.Line] = self._ask(lambda tx: showing.lines(tx, run))
        return lines

    def entries(self, run: int, kind: str) -> list[showing.Line]:
        """Return the entries of one kind that a call made."""
        return [line for line in self.journal(run) if line.kind == kind and line.key]

    def pass_time(self, seconds: float) -> None:
        """Move the database's clock on, for everybody whose app follows it."""
        self._ahead += clock.micros(seconds)
        ahead.put(self._clock, self._ahead)
        if self.store.kind == "postgres":
            self._ask(lambda tx: raw(tx).execute(ahead.FUNCTION.format(micros=self._ahead).encode()))

    def now(self) -> int:
        """Return the database's time."""
        return int(self._ask(lambda tx: tx.now()))

    def naked(self) -> int:
        """Return how many runs are `running` without a lease, in one statement."""
        row = self._ask(lambda tx: raw(tx).execute(_NAKED).fetchone())
        return int(row[0])

    def until(self, fits: Callable[[], Any], what: str) -> Any:
        """Return what `fits` returns as soon as that is true. No run may be `running` without a lease meanwhile."""
        ends_at = clock.monotonic() + PATIENCE_SECONDS
        while not (found := fits()):
            assert clock.monotonic() < ends_at, f"not within {PATIENCE_SECONDS:g} s: {what}\n{self.logs()}"
            assert self.naked() == 0
            self._news.wait(LOOK_AGAIN_SECONDS)
            self._news.clear()
        return found

    def ended(self, run: int) -> State:
        """Wait until a run has ended, and return how."""
        self.until(lambda: self.run(run).state.final, f"{run_name('run', run)} ended")
        return self.run(run).state

    def result(self, run: int) -> Any:
        """Wait until a run has completed, and return its result."""
        assert self.ended(run) is State.COMPLETED, (self.journal(run), self.logs())
        return self.journal(run)[-1].value

    def unknown(self, run: int) -> None:
        """Wait until a run waits for a person to say what became of an effect."""

        def asks() -> bool:
            waiting = self.run(run).state is State.WAITING
            return waiting and any(wait.kind is WaitKind.ATTENTION for wait in self._ask(lambda tx: tx.waits([run])))

        self.until(asks, "a person is asked")

    def logs(self) -> str:
        """Return what the workers wrote."""
        return "\n".join(member.log for member in self.members)

    def _ask(self, op: Callable[[Tx], Any]) -> Any:
        return self.store.transact_now(op)


def standing_still(pid: int) -> bool:
    """Whether a process is gone, or dead and not yet fetched by its parent."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text("ascii").rpartition(")")[2].split()[0] in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return True


def children(pid: int) -> Iterator[int]:
    """Yield the children of a process, in any of its threads."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        yield from (int(child) for child in (thread / "children").read_text("ascii").split())
