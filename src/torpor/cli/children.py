"""Forked children of a worker's process, and signals.

asyncio hears of signals through a pipe, which a forked child shares, handlers and all: a step's pool of processes ended its
children with SIGTERM, and the worker drained. In a child signals do what they do in any process. They are kept back while it
forks, for one may come before the child's first line.
"""

from __future__ import annotations

import os
import signal
from functools import cache
from threading import local

_ENDING = (signal.SIGINT, signal.SIGTERM)
_of_thread = local()


@cache
def see_to_signals() -> None:
    """Do so from now on, in every fork that runs Python's hooks. Again does nothing."""
    os.register_at_fork(before=_keep_back, after_in_parent=_let_through, after_in_child=_are_its_own)


def _keep_back() -> None:
    _of_thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)


def _let_through() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _of_thread.mask)


def _are_its_own() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_through()
