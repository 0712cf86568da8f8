"""The host's word: the only one that can know. A file whose text changes, or a datagram.

What the host says is the name of the event, one that it uses once (a generation, a number that grows). With more to say it
is JSON: `{"event": "generation 17", "kind": "copied", "away_seconds": 3.5}`. A bare name means `copied`, and so does whatever
else it says: that it spoke is the event, and no word of it may be lost or break the look that heard it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..event import Finding, Kind

if TYPE_CHECKING:
    from .clocks import Reading

HOST_FILE = Path("/run/rouse/generation")
FILE_VARIABLE, SOCKET_VARIABLE = "ROUSE_HOST_FILE", "ROUSE_HOST_SOCKET"
_MOST_BYTES = 4096
"""Of a word. A longer one is a name."""
_MOST_SHOWN = 200
"""Letters of a name in the evidence, which goes to logs."""
_MOST_SENT_BYTES = 1 << 18
"""More than a datagram of a unix socket holds, unless root raised the limits."""
MOST_PATH_BYTES = 107
"""Of a unix socket's path, without the zero behind it: unix(7). macOS takes 103."""
_MOST_AWAY_SECONDS = 100 * 365.25 * 86400
_LATE_FOR = ("vmclock", "kmsg")
"""Not each other: the host's two ways say the same by an equal name."""


class HostFile:
    """Whether the text of a file changed that the host writes, through its agent in the guest or a shared folder.

    Sees: whatever the host says, by the name it gives it: copied, rolled back, slept. It is certain, so nothing is in doubt.
    Cannot see: what the host does not say, and anything before the file is written: write it before user code goes on.
    Needs: no root. A host that writes a new file and renames it over $ROUSE_HOST_FILE (/run/rouse/generation).
    Cost: one small file read a look, 15 us.
    Fallback: vmclock, kmsg.
    """

    name: ClassVar[str] = "host file"

    def __init__(self, path: Path | None = None) -> None:
        """Take what the file says now as known. It need not exist yet.

        Raises:
            OSError: neither the file nor its folder is there, or it may not be read.
        """
        self._path = path or Path(os.environ.get(FILE_VARIABLE) or HOST_FILE)
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"{self._path.parent} is not there")
        self._known = self._read()[0] if self._path.exists() else b""

    def __call__(self, _before: Reading, _now: Reading) -> Finding | None:
        """Read the file. One that is away or empty for a moment says nothing."""
        try:
            known, said = self._read()
        except OSError:
            return None
        if not said.strip() or known == self._known:
            return None
        finding = said_by_host(said, self.name, f"{self._path} changed", known)
        self._known = known  # last: what breaks before is asked again
        return finding

    def _read(self) -> tuple[bytes, bytes]:
        """Return what tells the text from every other, and as much of it as is a word."""
        with open(self._path, "rb", opener=_at_once) as opened:
            said = opened.read(_MOST_BYTES + 1)
            if len(said) <= _MOST_BYTES:
                return said, said
            opened.seek(0)
            return hashlib.file_digest(opened, "sha256").digest(), said


def _at_once(path: str, flags: int) -> int:
    """Open without waiting: a pipe in the file's place, into which nobody writes, would hold the look for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


class HostSocket:
    """Whether the host (or its agent in the guest) sent a datagram to a unix socket.

    Sees: the same as the host file, at once instead of at the next look.
    Cannot see: what is sent while nobody listens; and a copy of the process does not listen: a socket has one reader.
    Needs: no root. A host that sends to the path in $ROUSE_HOST_SOCKET; only this user may send.
    Cost: one system call a look, 1 us.
    Fallback: the host file, which a copy of the process sees too.
    """

    name: ClassVar[str] = "host socket"

    def __init__(self, path: Path | None = None) -> None:
        """Listen.

        Raises:
            OSError: no path was given, or nobody may listen there.
        """
        named = path or os.environ.get(SOCKET_VARIABLE)
        if not named:
            raise FileNotFoundError(f"${SOCKET_VARIABLE} is not set")
        self._path, self._pid = Path(named), os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._bind()
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """What becomes readable when the host speaks. -1 in a copy of the process."""
        return self._socket.fileno() if self._pid == os.getpid() else -1

    def _bind(self) -> None:
        length = len(os.fsencode(self._path))
        if length > MOST_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, f"its path has {length} bytes, and a socket's at most {MOST_PATH_BYTES}")
        if not self._path.is_socket() and os.path.lexists(self._path):
            raise OSError(errno.ENOTSOCK, f"{self._path} is there, and is not a socket")
        if self._path.is_socket():
            try:
                self._socket.connect(str(self._path))
            except ConnectionRefusedError:
                self._path.unlink()  # of a listener that is gone
            else:
                raise OSError(errno.EADDRINUSE, f"another process listens at {self._path}")
        self._socket.bind(str(self._path))
        self._path.chmod(0o600)

    def __call__(self, _before: Reading, _now: Reading) -> Finding | None:
        """Take one datagram; the next look takes the next."""
        if self.fileno() < 0:
            return None
        try:
            said = self._socket.recv(_MOST_SENT_BYTES)
        except OSError:
            return None
        return said_by_host(said, self.name, f"a datagram came to {self._path}") if said.strip() else None

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        if self._pid == os.getpid():
            self._path.unlink(missing_ok=True)


def said_by_host(said: bytes, by: str, how: str, digest: bytes = b"") -> Finding:
    """Return what the host said. Words that mean nothing here are a name. A long one is told apart by the `digest` of it."""
    if len(said) > _MOST_BYTES:
        notice = f"{_text(said[:80])}... ({(digest or hashlib.sha256(said).digest()).hex()})"
        return _finding(Kind.COPIED, 0.0, notice, by, how)
    kind, away_seconds, notice = Kind.COPIED, 0.0, _text(said)
    try:
        words = json.loads(notice)
        if isinstance(words, dict):
            notice = _text(str(words.get("event", notice)).encode("utf-8", "backslashreplace"))
            kind = Kind(words.get("kind", kind))
            away_seconds = float(words.get("away_seconds", 0.0))
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass  # as far as it was understood
    if not 0 <= away_seconds <= _MOST_AWAY_SECONDS:  # nor is NaN
        away_seconds = 0.0
    return _finding(kind, away_seconds, notice, by, how)


def _text(said: bytes) -> str:
    return said.decode("utf-8", "backslashreplace").strip()


def _finding(kind: Kind, away_seconds: float, notice: str, by: str, how: str) -> Finding:
    shown = notice if len(notice) <= _MOST_SHOWN else f"{notice[:_MOST_SHOWN]}..."
    evidence = f"{how}: the host says {shown}"
    return Finding(kind, evidence, away_seconds, certain=True, by=by, confirms=_LATE_FOR, notice=f"host: {notice}")
