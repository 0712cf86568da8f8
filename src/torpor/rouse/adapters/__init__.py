"""What other people's libraries need after a rousal: `rouse.adapt()` once, and it is done for the whole process.

An adapter does something only if its library is imported by then, whenever that was; it imports none itself. One file for
each library says what it does and what it cannot; `waking.py` says where the objects come from, `dropping.py` how a connection
is let go. Order: random numbers first, then connections, then schedules (`Phase`).

If an adapter fails, the others still do their work, and then the rousal fails: the gate stays closed.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..event import Kind
from ..phases import Phase
from ..registry import on_rousal
from . import (
    aiohttp,
    apscheduler,
    asyncpg,
    grpc,
    http_client,
    httpcore,
    kernel,
    numpy,
    openssl,
    psycopg,
    random_numbers,
    redis,
    sqlalchemy,
)
from .waking import Waking, take_care

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..event import Rousal
    from ..registry import Registration


class Adapter(Protocol):
    """One file of this folder."""

    @property
    def LIBRARIES(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the file
        """The adapter is active as soon as one of these is imported."""

    def classes(self) -> tuple[type, ...]:
        """Whose objects it looks after."""

    def wake(self, waking: Waking, found: list[Any], /) -> None:
        """Make them sound. May be called again for the same rousal."""


@dataclass(frozen=True, repr=False)
class _Registered:
    phase: Phase
    adapters: tuple[Adapter, ...]
    everywhere: bool
    """Whether all living objects are looked after, or only those under care."""
    kinds: frozenset[Kind]

    def __call__(self, rousal: Rousal) -> None:
        wake(rousal, self)

    def __repr__(self) -> str:
        """Name it for a person, who called that (`Registration.name`)."""
        return "rouse.adapt()"


_NOT_A_STEP = frozenset(Kind) - {Kind.CLOCK_STEP}

_PHASES = (
    _Registered(Phase.RESEED, (kernel, random_numbers, numpy, openssl), everywhere=False, kinds=_NOT_A_STEP),
    _Registered(
        Phase.CONNECTIONS,
        (httpcore, aiohttp, http_client, psycopg, asyncpg, sqlalchemy, redis, grpc),
        everywhere=True,
        kinds=_NOT_A_STEP,
    ),
    _Registered(Phase.SCHEDULES, (apscheduler,), everywhere=True, kinds=frozenset(Kind)),
)

_registrations: list[Registration[Any]] = []


def adapt(*objects: object) -> None:
    """Look after every library this process uses or will use, and after `objects`, from now on. Again does no harm.

    Pass generators that are to differ in copies (`random.Random`, `numpy.random.Generator`); clients and pools are found
    without being passed.

    Raises:
        TypeError: nothing is known about such an object. Nothing was taken under care.
    """
    known = tuple(each for registered in _PHASES for adapter in registered.adapters for each in adapter.classes())
    for each in objects:
        if not isinstance(each, known):
            msg = f"no adapter knows what to do with a {type(each).__module__}.{type(each).__qualname__}"
            raise TypeError(msg)
    for each in objects:
        take_care(each)
    if not _registrations:
        _registrations.extend(on_rousal(each, phase=each.phase, kinds=each.kinds) for each in _PHASES)


def wake(rousal: Rousal, registered: _Registered) -> None:
    """Let the adapters of one phase do their work."""
    waking = Waking(rousal)
    errors: list[Exception] = []
    active: list[tuple[Adapter, tuple[type, ...]]] = []
    for adapter in registered.adapters:
        if any(library in sys.modules for library in adapter.LIBRARIES):
            with _noting(errors):
                active.append((adapter, adapter.classes()))
    if registered.everywhere:
        waking.living(tuple(kind for _, classes in active for kind in classes))  # one look for all of them
    for adapter, classes in active:
        with _noting(errors):
            adapter.wake(waking, waking.living(classes) if registered.everywhere else waking.under_care(classes))
    if errors:
        raise ExceptionGroup(f"adapters failed in {registered.phase.name}", errors)
    if registered.phase is Phase.CONNECTIONS:
        waking.all_dropped()


@contextmanager
def _noting(errors: list[Exception]) -> Iterator[None]:
    """Put off an error until the other adapters had their turn."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whoever put it off raises it
        errors.append(error)
