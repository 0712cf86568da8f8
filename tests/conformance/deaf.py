"""A wire to a server that can be cut after the question and before the answer."""

from __future__ import annotations

import select
import socket
import threading
from urllib.parse import urlsplit


class DeafWire:
    """Passes everything on, until `lose_answer`: then the next answer is read, thrown away, and the wire is cut."""

    def __init__(self, server_url: str) -> None:
        """Listen on a port of its own; `url` goes through it."""
        parts = urlsplit(server_url)
        self._server = parts.hostname or "127.0.0.1", parts.port or 5432
        self._door = socket.create_server(("127.0.0.1", 0))
        port = self._door.getsockname()[1]
        self.url = server_url.replace(f":{parts.port}", f":{port}", 1)
        self._lose = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open = True
        self._start(self._accept)

    def lose_answer(self) -> None:
        """Cut the connection that is answered next, once the server has said what it had to say."""
        self._lose.set()

    def close(self) -> None:
        """Let no one in any more."""
        self._open = False
        socket.create_connection(self._door.getsockname()).close()
        for thread in self._threads:
            thread.join()
        self._door.close()

    def _start(self, call: object, *args: object) -> None:
        thread = threading.Thread(target=call, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            client, _ = self._door.accept()
            if not self._open:
                client.close()
                return
            self._start(self._pass, client)

    def _pass(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            while True:
                readable, _, _ = select.select([client, server], [], [])
                for source in readable:
                    said = source.recv(65536)
                    if not said or (source is server and self._lose.is_set()):
                        self._lose.clear()
                        return
                    (server if source is client else client).sendall(said)
