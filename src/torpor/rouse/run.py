"""`python -m torpor.rouse run -- CMD`: a program that cannot watch for itself is told, or born again.

A Node program's generators live in its memory: after a copy only a new process has its own, from a kernel that was fed
first (`adapters/kernel.py`). So on a rousal the program is signalled or restarted, as chosen. Meanwhile it runs as if nobody
stood above it: signals sent here go on to it, those of the terminal reach it anyway, its exit status becomes ours.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .adapters import kernel
from .adapters.waking import Waking
from .phases import Phase
from .registry import process_registry
from .ticks import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .detectors.clocks import Limits
    from .event import Rousal

PASSED_ON = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
)
_NOT_WANTED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
"""Whoever sends one of these does not want the program back; others may mean: write your log elsewhere."""
GRACE_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_NO_PROGRAM, _NOT_STARTED = 127, 126  # as shells answer
_BY_SIGNAL = 128


class Run:
    """One program under watch."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        send: signal.Signals | None,
        grace_seconds: float = GRACE_SECONDS,
        say: Callable[[str], object] = print,
    ) -> None:
        """On a rousal `send` that signal, or with None restart: SIGTERM, and SIGKILL after `grace_seconds`."""
        self._command = list(command)
        self._send = send
        self._grace_seconds = grace_seconds
        self._write = say
        self._alive = threading.Lock()
        """Held to signal the program and to learn that it ended: a number may belong to another one right after that."""
        self._pid = 0
        self._killed_at: float | None = None
        self._restarts = False

    def run(self, limits: Limits | None = None) -> int:
        """Run the program to its end; the exit status a shell would give.

        Raises:
            OSError: this system cannot wait for a signal by its sender (`sigtimedwait`: Linux has it, macOS does not).
        """
        if not hasattr(signal, "sigtimedwait"):
            raise OSError("run needs sigtimedwait, which this system does not have")
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGCHLD})
        registration = process_registry.on_rousal(self._roused, phase=Phase.OPEN_GATE)
        watching = watch(limits)
        try:
            return self._live(usual)
        finally:
            watching.stop()
            registration.take_back()
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)

    def _live(self, mask: set[int | signal.Signals]) -> int:
        while True:
            try:
                self._pid = os.posix_spawnp(self._command[0], self._command, os.environ, setsigmask=mask)
            except OSError as error:
                self._say(f"{self._command[0]}: {error.strerror}")
                return _NO_PROGRAM if isinstance(error, FileNotFoundError) else _NOT_STARTED
            status = self._wait()
            if not self._restarts:
                return status if status >= 0 else _BY_SIGNAL - status
            self._restarts, self._killed_at = False, None
            self._say(f"restarted: {' '.join(self._command)}")

    def _wait(self) -> int:
        while True:
            came = signal.sigtimedwait(PASSED_ON | {signal.SIGCHLD}, _LOOK_SECONDS)
            if came is not None and came.si_signo in PASSED_ON and came.si_code <= 0:  # the terminal's go to both of us
                if came.si_signo in _NOT_WANTED:
                    self._restarts = False
                os.kill(self._pid, came.si_signo)
            with self._alive:
                ended, status = os.waitpid(self._pid, os.WNOHANG)
                if ended:
                    self._pid = 0
                    return os.waitstatus_to_exitcode(status)
            if self._killed_at is not None and time.monotonic() >= self._killed_at:
                os.kill(self._pid, signal.SIGKILL)

    def _say(self, line: str) -> None:
        with suppress(OSError):  # nobody reads it any more: the program matters
            self._write(line)

    def _roused(self, rousal: Rousal) -> None:
        """From the watch's thread."""
        kernel.wake(Waking(rousal), [])
        self._say(f"{rousal.kind}, {rousal.away_seconds:.3f} s away")
        with self._alive:
            if not self._pid:
                return
            os.kill(self._pid, self._send or signal.SIGTERM)
            if self._send is None:
                self._restarts, self._killed_at = True, time.monotonic() + self._grace_seconds
                os.kill(self._pid, signal.SIGCONT)  # a stopped one would not see the other
