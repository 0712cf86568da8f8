"""Every detector there is, best first, and which of them work here."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .differences import Frozen, Moved, ProcessCopied, Stepped, Suspended
from .host import FILE_VARIABLE, SOCKET_VARIABLE, HostFile, HostSocket
from .kmsg import Kmsg
from .logind import Logind
from .timerfd import Timerfd
from .vmclock import Vmclock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .clocks import Detector

OUTSIDE: tuple[type[HostFile | HostSocket | Vmclock | Kmsg | Timerfd | Logind], ...] = (
    HostSocket,
    HostFile,
    Vmclock,
    Kmsg,
    Timerfd,
    Logind,
)
"""Those that keep something open."""
ALL: tuple[type[Detector], ...] = (
    HostSocket, HostFile, Vmclock, Kmsg, ProcessCopied, Suspended, Moved, Timerfd, Stepped, Frozen, Logind
)  # fmt: skip
"""All, best first."""
_VARIABLES = {HostSocket.name: SOCKET_VARIABLE, HostFile.name: FILE_VARIABLE}
PARAGRAPHS = ("Sees", "Cannot see", "Needs", "Cost", "Fallback")


def open_outside() -> tuple[list[Detector], dict[str, str]]:
    """Open what works here; the detectors, and for each of the others why it does not."""
    opened: list[Detector] = []
    missing: dict[str, str] = {}
    for make in OUTSIDE:
        try:
            opened.append(make())
        except OSError as error:
            missing[make.name] = _why(error)
    return opened, missing


def _why(error: OSError) -> str:
    why = error.strerror or str(error)
    return why if error.filename is None else f"{error.filename}: {why}"


def asked_in_vain(missing: Mapping[str, str]) -> list[str]:
    """Return a line for each detector that is `missing` though an environment variable asks for it: somebody relies on it."""
    asked = [(name, variable, os.environ.get(variable)) for name, variable in _VARIABLES.items() if name in missing]
    return [f"${variable} ({value}) is not listened to: {missing[name]}" for name, variable, value in asked if value]


def names(opened: Sequence[Detector]) -> list[str]:
    """Return what a watch sees with, best first: the detectors outside that are `opened`, and those that every watcher has."""
    there = {name_of(detector) for detector in opened}
    return [name_of(made) for made in ALL if made not in OUTSIDE or name_of(made) in there]


def name_of(detector: Detector | type[Detector]) -> str:
    """Return what a person calls a detector."""
    return str(getattr(detector, "name", detector))


def close(detectors: list[Detector]) -> None:
    """Close those that have something open."""
    for detector in detectors:
        closing: Callable[[], None] | None = getattr(detector, "close", None)
        if closing is not None:
            closing()


@dataclass(frozen=True, slots=True)
class About:
    """What a person asks about a detector."""

    name: str
    works: bool
    why_not: str
    """Empty if it works here."""
    question: str
    """What it answers."""
    paragraphs: dict[str, str]
    """By `PARAGRAPHS`. Empty texts under `python -OO`, which drops docstrings."""


def explain() -> list[About]:
    """Return every detector, best first, and whether it works in this process."""
    opened, missing = open_outside()
    close(opened)
    return [_about(made, missing) for made in ALL]


def _about(made: type[Detector], missing: dict[str, str]) -> About:
    name = str(getattr(made, "name", made.__name__))
    lines = (inspect.getdoc(made) or "").splitlines()
    said = dict.fromkeys(PARAGRAPHS, "")
    for line in lines[1:]:
        heading, colon, text = line.partition(": ")
        if colon and heading in said:
            said[heading] = text
    return About(name, name not in missing, missing.get(name, ""), lines[0] if lines else "", said)
