"""Know that you slept. Standard library only, useful by itself.

    from torpor import rouse

    watcher = rouse.Watcher()                   # where the ticking begins

    born_in = rouse.incarnation()
    connection = rouse.guard(connect(), born_in=born_in)
    connection.get().send(...)                  # raises rouse.Stale in another life

    @watcher.on_rousal
    def wake(rousal): ...                       # in order; fails closed

    watcher.check()                             # at each tick, and before what must not happen twice

    rouse.adapt()                               # the libraries this process uses: connections, random numbers ...

    with watcher.uninterrupted(): ...           # raises rouse.Interrupted if it was not

What each party may believe is said at the top of `incarnation.py`.
"""

from __future__ import annotations

from .adapters import adapt
from .beacon import Beacon, FileBeacon, Mark, Place, Verdict
from .detectors import Clocks, Detector, Limits, Reading, default_detectors
from .errors import GateClosed, Interrupted, NotCurrent, RousalFailed, RouseError, Stale
from .event import Finding, Kind, Rousal
from .guard import Guard, guard
from .incarnation import Incarnation, Process, incarnation
from .phases import Phase
from .registry import Registration, Registry, mend, on_rousal, process_registry
from .renewed import Renewed
from .snapshot import (
    SnapshotHooks,
    after_restore,
    before_snapshot,
    no_snapshot,
    register_after_restore,
    register_before_snapshot,
)
from .ticks import Watch, pass_gate, uninterrupted, watch, watching
from .token import Token
from .watcher import Uninterrupted, Watcher

__all__ = [
    "Beacon",
    "Clocks",
    "Detector",
    "FileBeacon",
    "Finding",
    "GateClosed",
    "Guard",
    "Incarnation",
    "Interrupted",
    "Kind",
    "Limits",
    "Mark",
    "NotCurrent",
    "Phase",
    "Place",
    "Process",
    "Reading",
    "Registration",
    "Registry",
    "Renewed",
    "Rousal",
    "RousalFailed",
    "RouseError",
    "SnapshotHooks",
    "Stale",
    "Token",
    "Uninterrupted",
    "Verdict",
    "Watch",
    "Watcher",
    "adapt",
    "after_restore",
    "before_snapshot",
    "default_detectors",
    "guard",
    "incarnation",
    "mend",
    "no_snapshot",
    "on_rousal",
    "pass_gate",
    "process_registry",
    "register_after_restore",
    "register_before_snapshot",
    "uninterrupted",
    "watch",
    "watching",
]
