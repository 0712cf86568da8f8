"""A process of the demo ends with the demo, whatever ends the demo: the kernel is asked to see to it.

A frozen process can do nothing about its own end, so a thread that watches the parent would not be enough.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Let the kernel kill this process when process `parent` is gone; end now if it is gone already.

    Where the kernel is not Linux nothing is asked for; the demo ends its processes itself, unless it is killed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it went before it could be watched
        raise SystemExit(1)
