"""A wire to a server: counts its connections, keeps what the client said on each, and can go deaf on those there are."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

from tests.patience import PATIENCE_SECONDS


class _Line:
    """One connection, both ways, a thread each."""

    def __init__(self, wire: Wire, client: socket.socket, server: socket.socket) -> None:
        self.wire, self.client, self.server = wire, client, server
        self.said = bytearray()
        self.deaf = False
        self.hung_up = False
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while chunk := source.recv(65536):
                with self.wire.changed:
                    if source is self.client:
                        self.said += chunk
                    deaf = self.deaf
                    self.wire.changed.notify_all()
                if not deaf:
                    sink.sendall(chunk)
        except OSError:
            pass
        with self.wire.changed:
            if source is self.client:
                self.hung_up = True
            deaf = self.deaf
            self.wire.changed.notify_all()
        if not deaf:
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)


class Wire:
    """`with Wire(port) as wire:` connect to `wire.port` and speak to the server at `port`."""

    def __init__(self, port: int) -> None:
        """Listen."""
        self.changed = threading.Condition()
        self.lines: list[_Line] = []
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            with self.changed:
                self.lines.append(_Line(self, client, server))
                self.changed.notify_all()

    def __enter__(self) -> Self:
        """Listens already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up on everybody."""
        self._listening.close()
        for line in self.lines:
            line.client.close()
            line.server.close()

    @property
    def connections(self) -> int:
        """How many there were, ever."""
        return len(self.lines)

    def said(self) -> list[bytes]:
        """What the client said on each connection until now."""
        with self.changed:
            return [bytes(line.said) for line in self.lines]

    def deafen(self) -> list[bytes]:
        """Answer nothing more on the connections there are, and do not say so. What was said until now."""
        with self.changed:
            for line in self.lines:
                line.deaf = True
            return [bytes(line.said) for line in self.lines]

    def await_more_than(self, before: list[bytes]) -> None:
        """Wait until the client said something more on one of these connections."""
        with self.changed:
            heard = self.changed.wait_for(
                lambda: any(len(line.said) > len(old) for line, old in zip(self.lines, before, strict=False)),
                PATIENCE_SECONDS,
            )
        assert heard
