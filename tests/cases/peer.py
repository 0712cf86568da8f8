"""A web server whose answers the test gives, one by one."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from queue import Queue
from typing import Self

from tests.patience import PATIENCE_SECONDS


class Peer:
    """Takes requests without a body, on a port of its own."""

    def __init__(self) -> None:
        """Listen."""
        self._door = socket.create_server(("127.0.0.1", 0))
        self._asked: Queue[socket.socket] = Queue()
        self._lines: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}/"
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up on everybody."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for line in self._lines:
            line.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                line = self._door.accept()[0]
                self._lines.append(line)
                request = b""
                while b"\r\n\r\n" not in request and (more := line.recv(65536)):
                    request += more
                if request:
                    self._asked.put(line)

    def next(self) -> socket.socket:
        """Return who asked next, whose answer is not given yet."""
        return self._asked.get(timeout=PATIENCE_SECONDS)

    @property
    def quiet(self) -> bool:
        """Whether nobody has asked who was not given an answer."""
        return self._asked.empty()


def answer(line: socket.socket, text: str) -> None:
    """Answer a request."""
    line.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode())
