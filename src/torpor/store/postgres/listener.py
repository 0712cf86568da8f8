"""Hearing hints from PostgreSQL: LISTEN on a connection of its own, in a thread of its own.

A hint may be lost and the poll is the truth, so nothing here is ever an error to a caller: a broken connection is
opened again with growing pauses. A half-open one is noticed by a question now and then. Behind a pooler that hands
connections around, LISTEN is accepted and nothing is ever heard; a hint to ourselves at the start finds that out.
"""

from __future__ import annotations

import logging
import secrets
import select
import socket
import threading
from typing import TYPE_CHECKING

import psycopg

from torpor.errors import StoreError
from torpor.store.postgres.exchange import Seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor.store.postgres.connect import Place

_log = logging.getLogger(__name__)

_ASK_SECONDS = 15.0
_PAUSES = (0.1, 0.5, 2.0, 5.0)
_PROBE = "?"


def channel_of(schema: str) -> str:
    """Return the channel that carries the hints of a schema's tables."""
    return f"torpor_{schema}"[:63]


class PostgresListener:
    """A subscription."""

    def __init__(self, place: Place, heard: Callable[[str], None]) -> None:
        """Start to listen; `heard` is called from this listener's thread.

        `listening` is set while hints are heard, `hearings` counts how often that began.
        """
        self._place = place
        self._channel = channel_of(place.schema)
        self._heard = heard
        self._probe = ""
        self._wake, self._woken = socket.socketpair()
        self._closed = False
        self.listening = threading.Event()
        self.hearings = 0
        self._thread = threading.Thread(target=self._loop, name="torpor-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        self._wake.send(b"x")
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._wake.close()
        self._woken.close()

    def _loop(self) -> None:
        failures = 0
        while not self._closed:
            try:
                seat = Seat(self._place)
            except StoreError as error:
                _log.info("hints are not heard now: %s", error)
            else:
                try:
                    self._listen(seat)
                    failures = 0
                except (StoreError, psycopg.Error, OSError) as error:
                    _log.info("hints are not heard now: %s", error)
                finally:
                    self.listening.clear()
                    seat.close()
            if not self._closed:
                select.select([self._woken], [], [], _PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1

    def _listen(self, seat: Seat) -> None:
        self._probe = _PROBE + secrets.token_hex(4)
        seat.connection.add_notify_handler(
            lambda notified: self._noticed(notified.payload)
        )  # those that come in an answer
        seat.connection.execute(f"LISTEN {self._channel}", prepare=False)
        seat.ask("SELECT pg_notify(%(channel)s, %(probe)s)", channel=self._channel, probe=self._probe)
        self._hear(seat)
        if self._probe:
            _log.warning("hints do not arrive through %s (a pooler?): polling only", self._place.words)
        self.hearings += 1
        self.listening.set()
        while not self._closed:
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
        elif topic and not topic.startswith(_PROBE) and not self._closed:
            self._heard(topic)
