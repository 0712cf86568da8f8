"""Hints between processes on one machine: a datagram to a unix socket of each. They may be lost; the poll may not.

Whoever listens binds a socket in a folder that belongs to the database (in the temporary folder, because socket paths
must be short); whoever has news sends to every socket there. A socket nobody reads any more is removed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_TOPIC_BYTES = 200
_TRIES = 5
_WITHOUT = "-"
"""In a socket's name, before what the topics begin with that its listener does not want: it is not woken for them."""


def folder_of(path: str) -> Path:
    """Return the folder of hint sockets that belongs to a database file. It exists while somebody listens."""
    name = hashlib.blake2b(os.path.realpath(path).encode(), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"torpor-{os.getuid()}-{name}"


def _made(folder: Path) -> Path:
    """Make the folder, for this user only. Raises PermissionError if it is somebody else's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        message = f"{folder} belongs to somebody else"
        raise PermissionError(message)
    return folder


class Hints:
    """Sends hints to every process that listens on this database."""

    def __init__(self, path: str) -> None:
        """Prepare to send; nothing is opened before the first hint."""
        self._path = path
        self._out: socket.socket | None = None

    def send(self, topics: Iterable[str]) -> None:
        """Send each topic to each listener. Never blocks, never raises: a hint may be lost."""
        try:
            if self._out is None:
                self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._out.setblocking(False)  # noqa: FBT003 - the socket module's own signature
            with os.scandir(folder_of(self._path)) as entries:
                places = [(entry.path, entry.name.partition(_WITHOUT)[2]) for entry in entries]
            for place, without in places:
                self._send_to(place, [topic for topic in topics if not (without and topic.startswith(without))])
        except OSError:
            return

    def _send_to(self, place: str, topics: Iterable[str]) -> None:
        if self._out is None:
            return
        for topic in topics:
            try:
                self._out.sendto(topic.encode()[:_TOPIC_BYTES], place)
            except ConnectionRefusedError:
                Path(place).unlink(missing_ok=True)  # its process is gone
                return
            except OSError:
                return

    def close(self) -> None:
        """Close the sending socket."""
        if self._out is not None:
            self._out.close()
            self._out = None


class HintListener:
    """Hears hints in a thread of its own."""

    def __init__(self, path: str, heard: Callable[[str], None], without: str = "") -> None:
        """Bind a socket for this process and call `heard(topic)` for each hint that does not begin with `without`."""
        self._heard = heard
        self._place = folder_of(path) / f"{secrets.token_hex(8)}{_WITHOUT if without else ''}{without}"
        self._in = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._bind()
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="torpor-hints", daemon=True)
        self._thread.start()

    def _bind(self) -> None:
        for left in reversed(range(_TRIES)):
            try:
                _made(self._place.parent)
                self._in.bind(str(self._place))
                return
            except FileNotFoundError:  # the last one who listened has just removed the folder
                if left == 0:
                    raise

    def _loop(self) -> None:
        while not self._closed:
            try:
                topic = self._in.recv(_TOPIC_BYTES).decode("utf-8", "replace")
            except OSError:
                return
            if topic and not self._closed:
                self._heard(topic)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._closed = True
        self._place.unlink(missing_ok=True)
        self._in.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._in.close()
        with suppress(OSError):  # others listen there
            self._place.parent.rmdir()
