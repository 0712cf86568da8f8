"""The life lock on this host: a locked file. Whoever obtains it knows that the process that held it is gone.

POSIX record locks, on purpose: they belong to the process, so a surviving forked child does not keep its dead parent's
lock (flock and open-file locks do), and a copy of the process does not have it. The other side of that coin: the lock
falls when *any* descriptor of the file is closed by the process, so the file is opened in exactly one place, here.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
import tempfile
from pathlib import Path
from typing import Protocol

_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
_HELD: dict[str, int] = {}  # name and process: opening and closing one of these files again would drop its own lock


class Lock(Protocol):
    """What a worker holds; see `store.protocol.LifeLock`."""

    name: str

    def held(self) -> bool:
        """Prove it is still held."""

    def release(self) -> None:
        """Let go."""


def host_identity() -> str:
    """Return what two processes must share so that a file lock of one tells the other something: machine, boot, user view.

    The boot id alone is equal in clones of a machine, so the pid namespace and the temporary folder's own identity stand
    beside it; a machine copied with all of them is what the store's own lock is for.
    """
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = boot.read_text("ascii").strip() if boot.exists() else "-"
    space_of = Path("/proc/self/ns/pid")
    space = space_of.readlink() if space_of.exists() else "-"
    place = _folder().stat()
    return f"{os.uname().nodename}/{boot_id}/{space}/{place.st_dev}:{place.st_ino}"


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"torpor-life-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class FileLock:
    """A held lock on a file of its own."""

    def __init__(self, name: str = "") -> None:
        """Take the lock under a fresh name, or under `name`."""
        self.name = name or secrets.token_hex(12)
        self._path = _folder() / self.name
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._pid = os.getpid()
        _HELD[self.name] = self._pid

    def held(self) -> bool:
        """Ask the kernel whether this process could lock the file: it can if it holds it, a copy of it cannot.

        `fcntl(F_GETLK)` ignores the caller's own lock and names the holder of any other; a file that is not locked at
        all cannot be told from one locked by us that way, so the lock is simply taken again: no change for its holder.
        """
        if os.getpid() != self._pid:
            return False
        try:
            query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind = struct.unpack(_FLOCK, fcntl.fcntl(self._file, fcntl.F_GETLK, query))[0]
            if kind != fcntl.F_UNLCK:
                return False
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return self._path.exists()

    def release(self) -> None:
        """Remove the file and let go: whoever looks for it finds nothing, which also proves the death."""
        if os.getpid() == self._pid and _HELD.pop(self.name, None) is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)


def process_gone(name: str) -> bool:
    """Whether the process that took the life lock `name` on this host is gone. Never waits."""
    if _HELD.get(name) == os.getpid():
        return False
    path = _folder() / name
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(file)
    path.unlink(missing_ok=True)
    return True
