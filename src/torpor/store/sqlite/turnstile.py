"""Whose turn it is to write, among several processes on one file.

SQLite's own waiting (`busy_timeout`) polls and is unfair: a process was seen to wait 3.1 s for its turn. Two file locks
make a queue of it: take A, take B, let A go, do the transaction, let B go. Whoever holds A is next; the kernel wakes
waiters in order. Measured: 3 ms at most. Inside one process the same locks order its connections, because each
turnstile opens the files for itself (flock belongs to the opening, not to the process).

**A process that is frozen while it has the turn stops every writer**, and a wait for a file lock has no time limit. So
whoever waits says since when; `SqliteStore` looks once a second, answers those who waited `WAIT_SECONDS`, and
names the process that has the turn, which the kernel knows. The thread itself goes on waiting; if it gets its turn after
that it lets it go and does nothing.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from torpor import clock
from torpor.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_SECONDS = 10.0
"""So long a turn is waited for. A turn lasts milliseconds, a migration of a large file seconds."""


class Turnstile:
    """One connection's way through. `waited` says whether somebody else had the turn when it was last asked for."""

    def __init__(self, path: str, waits: Callable[[], None] = lambda: None) -> None:
        """Open the two lock files beside the database. `waits` is called before each wait for somebody else."""
        self._path = path
        self._waits = waits
        self._a = os.open(f"{path}.turn-a", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._b = os.open(f"{path}.turn-b", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.waited = False
        self._since: float | None = None
        self._given_up = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Wait for the turn. Raises StoreUnavailable if the wait was given up meanwhile."""
        try:
            fcntl.flock(self._a, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(self._b, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.waited = False
        except BlockingIOError:
            self._wait()
        fcntl.flock(self._a, fcntl.LOCK_UN)
        return self

    def _wait(self) -> None:
        self.waited = True
        self._waits()
        self._since = clock.monotonic()
        fcntl.flock(self._a, fcntl.LOCK_EX)
        fcntl.flock(self._b, fcntl.LOCK_EX)
        with self._lock:
            self._since, given_up, self._given_up = None, self._given_up, False
        if given_up:
            fcntl.flock(self._b, fcntl.LOCK_UN)
            fcntl.flock(self._a, fcntl.LOCK_UN)
            raise no_turn(self._path)

    def give_up_after(self, limit_seconds: float, give_up: Callable[[], None]) -> None:
        """If its turn was waited for too long, call `give_up`; then it is not taken when it comes. For another thread.

        Under the lock, so that the thread cannot be beyond its wait, and at its next call, while that is answered.
        """
        with self._lock:
            if self._since is not None and clock.monotonic() - self._since > limit_seconds:
                self._given_up = True
                give_up()

    def __exit__(self, *_: object) -> None:
        """Let the next one through."""
        fcntl.flock(self._b, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files."""
        os.close(self._a)
        os.close(self._b)


class Holder(NamedTuple):
    """The process that has the turn now, as far as it can be seen from here. `frozen`: stopped by a signal or a debugger."""

    pid: int
    frozen: bool


def holder(path: str) -> Holder | None:
    """Return who has the turn to write to a database file now, or is next and keeps everybody behind waiting.

    None if nobody does, or it cannot be seen.
    """
    try:
        inodes = [str(Path(f"{path}.turn-{lock}").stat().st_ino) for lock in "ba"]
        lines = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
        held = {words[5].rpartition(":")[2]: words[4] for words in lines if words[1] == "FLOCK"}  # `->` waits for one
        pid = next((held[inode] for inode in inodes if inode in held), None)
        if pid is None:
            return None
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")  # of `n: FLOCK ADVISORY WRITE pid dev:inode ..`
        return Holder(int(pid), stat.rpartition(")")[2].split()[0] in {"T", "t"})
    except (OSError, IndexError):
        return None


def freeze(pid: int, path: str) -> None:
    """SIGSTOP a child of this process and return once it stands, but not while it has the turn or is next (`path`).

    For demonstrations and tests of what a freeze costs its own runs; what it costs everybody is `no_turn`'s to say.
    """
    while True:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if holder(path) != Holder(pid, frozen=True):
            return
        os.kill(pid, signal.SIGCONT)


def no_turn(path: str) -> StoreUnavailable:
    """Return the error for those who waited too long, naming the process that has the turn."""
    found = holder(path)
    if found is None:
        message = (
            f"no turn to write to {path} within {WAIT_SECONDS:g} s; the process that has it cannot be seen from here"
        )
        return StoreUnavailable(message, hint="look for a frozen or very busy process on this file: torpor doctor")
    state = "which is stopped" if found.frozen else "which does not let it go"
    message = f"no turn to write to {path} within {WAIT_SECONDS:g} s: pid {found.pid} has it, {state}"
    return StoreUnavailable(message, hint=way_out(found))


def way_out(found: Holder) -> str:
    """Return the next step for whoever finds that a process keeps the turn."""
    thaw = f"kill -CONT {found.pid}, or " if found.frozen else ""
    return f"{thaw}kill -KILL {found.pid}: what it had not committed is rolled back, nothing acknowledged is lost"
