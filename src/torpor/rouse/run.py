"""`python -m torpor.rouse run -- CMD`: a program that cannot watch for itself is born again, or told.

A Node program's generators live in its memory: after a copy only a new process has its own, from a kernel that was fed
first (`adapters/kernel.py`). So on a rousal the program is restarted or signalled, as chosen: it and all that it started
(`group.py`), and the new one starts when nobody of the old ones is left. Meanwhile it runs as if nobody stood above it:
signals sent here go on to its group, the terminal is lent to it (`terminal.py`), its exit status becomes ours.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .adapters import kernel
from .adapters.waking import Waking
from .group import LOOK_SECONDS, Group, Heir, members
from .phases import Phase
from .registry import process_registry
from .terminal import Terminal
from .ticks import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .detectors.clocks import Limits
    from .event import Rousal

PASSED_ON = frozenset(
    {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCONT,
        signal.SIGTSTP,
        signal.SIGWINCH,
    }
)
_NOT_WANTED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
"""Whoever sends one of these does not want the program back; others may mean: write your log elsewhere."""
_ASKS_FOR_TERMINAL = frozenset({signal.SIGTTIN, signal.SIGTTOU})
GRACE_SECONDS = 10.0
_WAIT_SECONDS = 1.0
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
        self._terminal = Terminal()
        self._alive = threading.Lock()
        """Held to start the program, to signal it from the watch's thread, and to let go of its number."""
        self._group: Group | None = None
        self._ends = False
        """Whether the whole group has to end now: somebody asked for it, or a rousal."""
        self._restarts = False
        self._kill_at: float | None = None

    def run(self, limits: Limits | None = None) -> int:
        """Run the program to its end; the exit status a shell would give.

        Raises:
            OSError: this system cannot wait for a signal by its sender, or list a group (Linux can, macOS cannot).
        """
        if not hasattr(signal, "sigtimedwait") or not os.path.exists("/proc/self/stat"):  # noqa: PTH110 - the name is all
            raise OSError("run needs sigtimedwait and /proc, which this system does not have")
        usual = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGCHLD, signal.SIGTTOU})
        heir = Heir(self._grace_seconds)  # before the watch: no fork beside a thread
        registration = process_registry.on_rousal(self._roused, phase=Phase.OPEN_GATE)
        watching = watch(limits)
        try:
            return self._live(usual, heir)
        finally:
            self._terminal.take_back()
            watching.stop()
            registration.take_back()
            heir.dismiss()
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)

    def _live(self, mask: set[int | signal.Signals], heir: Heir) -> int:
        name, again = shlex.join(self._command), False
        while True:
            try:
                with self._alive:
                    group = self._group = Group(self._command, mask)
            except OSError as error:
                self._say(f"{'not started again: ' if again else ''}{self._command[0]}: {error.strerror}")
                return _NO_PROGRAM if isinstance(error, FileNotFoundError) else _NOT_STARTED
            heir.keep(group.leader)
            if again:
                self._say(f"restarted: {name}")
            self._terminal.lend(group.leader)
            status = self._wait(group)
            heir.keep(0)
            self._terminal.take_back()
            if not self._restarts:
                return status if status >= 0 else _BY_SIGNAL - status
            self._ends, self._restarts, self._kill_at, again = False, False, None, True

    def _wait(self, group: Group) -> int:
        """Wait for the program's end, and for that of its whole group if that has to end."""
        ended = False
        while True:
            came = signal.sigtimedwait(PASSED_ON | {signal.SIGCHLD}, LOOK_SECONDS if ended else _WAIT_SECONDS)
            if came is not None and came.si_signo in PASSED_ON:
                self._pass_on(group, came.si_signo)
            self._mind_stops(group)
            if not ended and group.ended():
                ended = True
                self._leader_ended(group)
            with self._alive:
                if ended and (not self._ends or group.is_empty()):
                    self._group = None
                    return group.reap()
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill_at = time.monotonic() + self._grace_seconds + _WAIT_SECONDS
                self._say(f"not ended after {self._grace_seconds:g} s: killed, {_named(members(group.leader))}")
                group.send(signal.SIGKILL)

    def _leader_ended(self, group: Group) -> None:
        left = members(group.leader)
        unheard = self._send is not None and self._died_of(group) == self._send
        if unheard and self._send is not None:
            self._say(
                f"{shlex.join(self._command)} had no handler for {self._send.name} and died of it. "
                "hint: --restart is for a program without one"
            )
            self._ends = True
            group.send(signal.SIGTERM, signal.SIGCONT)
        if self._ends and self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace_seconds
        if left and not self._ends:
            self._say(f"{self._command[0]} ended; what it left goes on, watched by nobody: {_named(left)}")

    def _died_of(self, group: Group) -> int:
        how = os.waitid(os.P_PID, group.leader, os.WEXITED | os.WNOWAIT)
        return 0 if how is None or how.si_code == os.CLD_EXITED else int(how.si_status)

    def _pass_on(self, group: Group, number: int) -> None:
        if number in _NOT_WANTED:
            self._ends, self._restarts = True, False
        if number == signal.SIGCONT:
            self._terminal.lend(group.leader)
        group.send(number)
        if number == signal.SIGTSTP:  # the terminal's, which is not lent
            self._stop(os.getpid())
            group.send(signal.SIGCONT)

    def _mind_stops(self, group: Group) -> None:
        """Stop with a program that its terminal stopped, as if we were one: else no shell would take over."""
        number = group.stopped_by()
        if number in _ASKS_FOR_TERMINAL:
            if self._terminal.lend(group.leader):
                group.send(signal.SIGCONT)
                return
        elif number != signal.SIGTSTP or not self._terminal.lent:
            return
        self._terminal.take_back()
        self._stop(0)
        if self._terminal.lend(group.leader) or number == signal.SIGTSTP:
            group.send(signal.SIGCONT)

    def _stop(self, whom: int) -> None:
        """Be stopped until somebody lets us go on; 0 for our whole group. Without a shell above us nothing happens."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        os.kill(whom, signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})

    def _say(self, line: str) -> None:
        with suppress(OSError):  # nobody reads it any more: the program matters
            self._write(line)

    def _roused(self, rousal: Rousal) -> None:
        """From the watch's thread."""
        kernel.wake(Waking(rousal), [])
        self._say(f"{rousal.kind}, {rousal.away_seconds:.3f} s away")
        with self._alive:
            if self._group is None:
                return
            if self._send is not None:
                self._group.tell(self._send)
                return
            if self._kill_at is None:
                self._kill_at = time.monotonic() + self._grace_seconds
            self._ends = self._restarts = True
            self._group.send(signal.SIGTERM, signal.SIGCONT)  # a stopped one would not see the first


def _named(processes: Sequence[int]) -> str:
    return f"process {', '.join(map(str, processes))}" if processes else "nobody is left"
