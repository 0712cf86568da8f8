"""Hearing hints from PostgreSQL: LISTEN on a connection of its own, in a thread of its own.

A hint may be lost and the poll is the truth, so nothing here is ever an error to a caller: a broken connection is
opened again with growing pauses. A half-open one is noticed by a question now and then. Behind a pooler that hands
connections around, LISTEN would be accepted, never heard, and left in the pool: there a listener hears what its own
store says, and polling is for the rest. A pooler that was called one of sessions and is not is found out by a hint to
ourselves.
"""

from __future__ import annotations

import logging
import secrets
import select
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from torpor.errors import StoreError
from torpor.store.postgres.exchange import Seat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torpor.store.postgres.connect import Place

_log = logging.getLogger(__name__)

_ASK_SECONDS = 15.0
_PAUSES = (0.1, 0.5, 2.0, 5.0)
_PROBE = "?"
_SAID = 10_000
"""So many of our own hints may wait to be heard; older ones are lost then, as any hint may be."""


def channel_of(schema: str) -> str:
    """Return the channel that carries the hints of a schema's tables."""
    return f"torpor_{schema}"[:63]


class PostgresListener:
    """A subscription."""

    def __init__(self, place: Place, heard: Callable[[str], None], without: str = "") -> None:
        """Start to listen; `heard` is called from this listener's thread, but not for topics that begin with `without`.

        `listening` is set while hints are heard, `hearings` counts how often that began.
        """
        self._place = place
        self._channel = channel_of(place.schema)
        self._heard = heard
        self._without = without
        self._probe = ""
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)  # noqa: FBT003 - its only form
        self._said: deque[str] = deque(maxlen=_SAID)
        self._own_only = False
        self.closed = False
        self.listening = threading.Event()
        self.hearings = 0
        self._thread = threading.Thread(target=self._loop, name="torpor-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self.closed = True
        with suppress(BlockingIOError):  # full: it is awake
            self._wake.send(b"x")
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._wake.close()
        self._woken.close()

    def say(self, topics: Iterable[str]) -> None:
        """Let a listener behind a pooler hear hints of its own store. Never waits, never raises."""
        if self._own_only:
            self._said.extend(topics)
            with suppress(OSError):  # full: it is awake; closed: nobody listens
                self._wake.send(b"x")

    def _loop(self) -> None:
        failures = 0
        while not self.closed:
            try:
                seat = Seat(self._place)
            except StoreError as error:
                _log.info("hints are not heard now: %s", error)
            else:
                self._own_only = bool(seat.carried)
                try:
                    if self._own_only:
                        seat.close()
                        self._hear_own()
                    else:
                        self._listen(seat)
                    failures = 0
                except (StoreError, psycopg.Error, OSError) as error:
                    _log.info("hints are not heard now: %s", error)
                finally:
                    self.listening.clear()
                    seat.close()
            if not self.closed:
                select.select([self._woken], [], [], _PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1

    def _hear_own(self) -> None:
        _log.info("%s is behind a pooler: hints of this process, and polling", self._place.words)
        self.hearings += 1
        self.listening.set()
        while not self.closed:
            self._woken.recv(4096)
            while self._said:
                self._noticed(self._said.popleft())

    def _listen(self, seat: Seat) -> None:
        self._probe = _PROBE + secrets.token_hex(4)
        seat.connection.add_notify_handler(
            lambda notified: self._noticed(notified.payload)
        )  # those that come in an answer
        seat.connection.execute(f"LISTEN {self._channel}", prepare=False)
        seat.ask("SELECT pg_notify(%(channel)s, %(probe)s)", channel=self._channel, probe=self._probe)
        self._hear(seat)
        if self._probe:
            _log.warning("hints do not arrive through %s: is it pooler=transaction?", self._place.words)
        self.hearings += 1
        self.listening.set()
        while not self.closed:
            readable, _, _ = select.select([seat.connection.fileno(), self._woken.fileno()], [], [], _ASK_SECONDS)
            if not readable:
                seat.ask("SELECT 1")
            self._hear(seat)

    def _hear(self, seat: Seat) -> None:
        raw = seat.connection.pgconn
        raw.consume_input()
        while (notified := raw.notifies()) is not None:
            self._noticed(notified.extra.decode("utf-8", "replace"))

    def _noticed(self, topic: str) -> None:
        if topic == self._probe:
            self._probe = ""
        elif topic and not topic.startswith(_PROBE) and not self.closed and not self._unwanted(topic):
            self._heard(topic)

    def _unwanted(self, topic: str) -> bool:
        return bool(self._without) and topic.startswith(self._without)
