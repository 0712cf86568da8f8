"""What a flow's code calls. Everything it asks for is recorded once and answered from the record ever after."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from torpor.clock import as_datetime
from torpor.sdk.again import Again
from torpor.sdk.asking import Asking
from torpor.sdk.children import Children
from torpor.sdk.compensating import OnCancel
from torpor.sdk.hearing import Hearing
from torpor.sdk.speaking import Speaking
from torpor.sdk.spending import Spending
from torpor.sdk.waiting import Waiting
from torpor.sdk.work import Work

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from torpor.sdk.port import Port

T = TypeVar("T")


class Log:
    """The author's log lines: written once, not again while a turn is replayed."""

    __slots__ = ("_port",)

    def __init__(self, port: Port) -> None:
        """Write through the port."""
        self._port = port

    def __call__(self, event: str, **fields: object) -> None:
        """Write an info line."""
        self._port.log("info", event, fields)

    def debug(self, event: str, **fields: object) -> None:
        """Write a debug line."""
        self._port.log("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Write an info line."""
        self._port.log("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Write a warning line."""
        self._port.log("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Write an error line."""
        self._port.log("error", event, fields)


class Context(Work, Waiting, Asking, Hearing, Children, Speaking, Spending, OnCancel):
    """The first argument of every flow."""

    __slots__ = ("log",)

    def __init__(self, port: Port) -> None:
        """Speak through a port; made by torpor for each turn."""
        super().__init__(port)
        self.log = Log(port)

    @property
    def run_id(self) -> str:
        """The run's public id."""
        return self._port.run_id

    @property
    def turn(self) -> int:
        """The number of this turn, from 1."""
        return self._port.turn

    # values, recorded with the next commit

    def now(self) -> datetime:
        """Return the store's time, UTC."""
        return as_datetime(self._value("now", self._port.now))

    def random(self) -> float:
        """Return a random float in [0, 1), from the operating system's entropy."""
        import random as machine_random

        return float(self._value("random", machine_random.SystemRandom().random))

    def uuid(self) -> UUID:
        """Return a random UUID, from the operating system's entropy."""
        import uuid as machine_uuid

        return machine_uuid.UUID(self._value("uuid", lambda: str(machine_uuid.UUID(bytes=os.urandom(16), version=4))))

    def secret(self, name: str) -> str:
        """Return a secret by name, resolved now; torpor stores it nowhere (G15). Raises NotFound."""
        self._refuse_if_closing()
        return self._port.secret(name)

    def again(self, state: T) -> Again[T]:
        """End the turn: return this from the flow."""
        return Again(state)


def seconds(n: float) -> timedelta:
    """Return n seconds."""
    return timedelta(seconds=n)


def minutes(n: float) -> timedelta:
    """Return n minutes."""
    return timedelta(minutes=n)


def hours(n: float) -> timedelta:
    """Return n hours."""
    return timedelta(hours=n)


def days(n: float) -> timedelta:
    """Return n days."""
    return timedelta(days=n)
