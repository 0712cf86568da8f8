"""A program and all that it starts: a process group of its own, and somebody who ends it if we are gone.

What a person calls the program is often only its wrapper: `npm start`, `sh -c`. A signal for the wrapper alone would leave
the program below it alive, an orphan with its copied generators. So everything here is about the group. Whoever makes
himself a group or session of his own (a daemon) has left it.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LOOK_SECONDS = 0.02
"""Between two looks at a group that ends: the kernel tells of children only, not of theirs."""
_ENDED = frozenset({b"Z", b"X"})
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)  # for itself; a program that is started would inherit it


class Group:
    """One program that was started, the leader of its group. Its number stays its own until `reap`: no other can get it."""

    def __init__(self, command: list[str], mask: Collection[int]) -> None:
        """Start it, with the signals of `mask` blocked.

        Raises:
            OSError: it cannot be started.
        """
        self.leader = os.posix_spawnp(
            command[0], command, os.environ, setpgroup=0, setsigmask=mask, setsigdef=_PYTHON_IGNORES
        )

    def send(self, *numbers: int) -> None:
        """Signal every member."""
        send(self.leader, *numbers)

    def tell(self, number: int) -> None:
        """Signal the members that wait for this signal; every member if none does.

        A shell, or npm, has no handler for it and would die of it, away from the program below it that has one.
        """
        waiting = [each for each in members(self.leader) if _waits_for(each, number)]
        for each in waiting:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, number)
        if not waiting:
            self.send(number)

    def ended(self) -> bool:
        """Whether the leader ended. It is kept as it is."""
        return os.waitid(os.P_PID, self.leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def stopped_by(self) -> int:
        """Return the signal that stopped the leader since the last question, or 0."""
        with suppress(ChildProcessError):  # it ended
            stopped = os.waitid(os.P_PID, self.leader, os.WSTOPPED | os.WNOHANG)
            return 0 if stopped is None else int(stopped.si_status)
        return 0

    def is_empty(self) -> bool:
        """Whether nobody is left. Asked twice: one may begin behind the look's back while the one that began it ends."""
        return not members(self.leader) and not members(self.leader)

    def reap(self) -> int:
        """Return how the leader ended, as `os.waitstatus_to_exitcode` says it, and let go of its number."""
        _, status = os.waitpid(self.leader, 0)
        return os.waitstatus_to_exitcode(status)


def members(group: int) -> list[int]:
    """Return the processes of a group that live, by Linux's /proc."""
    found = []
    for place in os.scandir("/proc"):
        if place.name.isdigit():
            with suppress(OSError):  # it ended just now
                stat = Path(place.path, "stat").read_bytes()
                state, _, its_group = stat[stat.rindex(b")") + 2 :].split(maxsplit=3)[:3]
                if int(its_group) == group and state not in _ENDED:
                    found.append(int(place.name))
    return found


def send(group: int, *numbers: int) -> None:
    """Signal every member of a group that may be signalled; nobody if there is none."""
    for number in numbers:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _waits_for(process: int, number: int) -> bool:
    """Whether it has a handler for a signal, or has it blocked: then it fetches it by hand (sigwait, signalfd)."""
    with suppress(OSError, KeyError, ValueError):
        said = _status(process)
        return bool((int(said["SigCgt"], 16) | int(said["SigBlk"], 16)) >> (number - 1) & 1)
    return False


def _status(process: int) -> Mapping[str, str]:
    lines = Path(f"/proc/{process}/status").read_text("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


class Heir:
    """A process beside us that ends the group if we are killed. The kernel's own way would reach the wrapper alone."""

    def __init__(self, grace_seconds: float) -> None:
        """Begin, in a process that has no other threads yet."""
        ours, self._told = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._told)
                _inherit(ours, grace_seconds)
            finally:
                os._exit(0)
        os.close(ours)

    def keep(self, group: int) -> None:
        """End this group if we are gone; 0 for none."""
        with suppress(OSError):  # somebody killed it
            os.write(self._told, b"%d\n" % group)

    def dismiss(self) -> None:
        """End it. Nothing happens to the group that it was told last unless that is still kept."""
        os.close(self._told)
        os.waitpid(self._pid, 0)


def _inherit(told: int, grace_seconds: float) -> None:
    """Wait until nobody is left who could tell us anything; then end the group that was told last."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.closerange(3, told)
    os.closerange(told + 1, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 1 << 16)
    said = b"0"
    while came := os.read(told, 4096):
        said = came.split()[-1]
    if not int(said):
        return
    send(int(said), signal.SIGTERM, signal.SIGCONT)
    kill_at = time.monotonic() + grace_seconds
    while members(int(said)) and time.monotonic() < kill_at:
        time.sleep(LOOK_SECONDS)
    send(int(said), signal.SIGKILL)
