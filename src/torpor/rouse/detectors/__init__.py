"""How a wake shows. Each detector says in its docstring what it sees and what it cannot; `explain` prints that.

The detectors of `differences` need nothing and are asked by every watcher. Those outside the process (a host's word, a
device, the kernel's log) keep something open; `watch()` opens those that work here and hands them to the registry, so that
every watcher asks them from then on.
"""

from __future__ import annotations

from .clocks import Clocks, Detector, Limits, Reading
from .differences import default_detectors

__all__ = ["Clocks", "Detector", "Limits", "Reading", "default_detectors"]
