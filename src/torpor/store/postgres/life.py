"""A worker's life lock on PostgreSQL: an advisory lock on a connection of its own, and a locked file on the host.

The connection says that the worker can still be heard by the database, the file that its process lives. Only both
together are "held"; either of them, obtained by somebody else, is a proof of its own strength (`core.lease.Proof`).

Behind a pooler no connection is the worker's own, and a lock taken there would stay in the pool when the worker is gone.
So there is the file alone; the name says so, that nobody anywhere takes the missing advisory lock for a proof.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from torpor.errors import StoreError, StoreUnavailable
from torpor.store.life import FileLock
from torpor.store.postgres.exchange import Seat

if TYPE_CHECKING:
    from torpor.store.postgres.connect import Place

_TAKE = "SELECT pg_backend_pid(), pg_try_advisory_lock(%(key)s)"
_HELD = """SELECT 1 FROM pg_locks WHERE pid = pg_backend_pid() AND pid = %(backend)s AND granted
    AND locktype = 'advisory' AND objsubid = 1 AND classid::bigint = (%(key)s >> 32) & 4294967295
    AND objid::bigint = %(key)s & 4294967295"""
_FILE_ALONE = "file-"
OBTAIN = "SELECT pg_try_advisory_xact_lock(%(key)s)"


def lock_key(name: str) -> int:
    """Return the advisory lock's number for a life lock's name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def proves_by_lock(name: str) -> bool:
    """Whether a life lock of this name has an advisory lock, which proves something to whoever obtains it."""
    return not name.startswith(_FILE_ALONE)


class PostgresLifeLock:
    """A held life lock."""

    def __init__(self, place: Place) -> None:
        """Take both locks, behind a pooler only the file's, under a fresh name. Raises StoreUnavailable."""
        self._seat = Seat(place)
        self._file = FileLock(_FILE_ALONE + secrets.token_hex(12) if self._seat.carried else "")
        self.name = self._file.name
        self._key = lock_key(self.name)
        self._backend = 0
        if not proves_by_lock(self.name):
            return
        self._backend, taken = self._seat.ask(_TAKE, key=self._key)[0]
        if not taken:
            self.release()
            raise StoreUnavailable(f"the life lock {self.name} is taken", hint="start the worker again")

    def held(self) -> bool:
        """Prove it by a round trip on the lock's own connection, and by the file. Blocking.

        Behind a pooler the round trip says that the database can be heard by this process, and by no copy of it: a
        connection that broke is not opened again.
        """
        with self._seat.lock:
            if not self._seat.usable or not self._file.held():
                return False
            try:
                if not proves_by_lock(self.name):
                    return bool(self._seat.ask("SELECT 1"))
                return bool(self._seat.ask(_HELD, backend=self._backend, key=self._key))
            except StoreError:
                return False

    def release(self) -> None:
        """Let go of both, and return when others can see it."""
        self._file.release()
        with self._seat.lock:
            if self._seat.usable and proves_by_lock(self.name):
                with suppress(StoreError):
                    self._seat.ask("SELECT pg_advisory_unlock(%(key)s)", key=self._key)
            self._seat.close()
