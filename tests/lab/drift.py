"""How many calls two copies of OpenSSL's generator go on equal: `python -m tests.lab.drift python|node`.

A process, the first of a pid namespace, is copied twice (`ptraced.py`), so that nothing in it tells the copies apart, as after
a copy of the machine; and all of them run at the machine's own speed, which an emulated one is a hundred times short of.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.lab import ptraced
from tests.patience import PATIENCE_SECONDS

BLOCK = 1 << 16
"""Calls between two comparisons: after so many requests OpenSSL reseeds its public generator from the primary one."""
MOST_CALLS = 40_000_000
BYTES = 4

PROGRAMS = Path(__file__).parent / "guest/programs"
COMMANDS = {
    "python": (sys.executable, "-I", str(PROGRAMS / "counting.py")),
    "node": ("node", "--single-threaded", "--v8-pool-size=0", str(PROGRAMS / "counting.js")),
}


class Copy:
    """One of two, with which the test talks over pipes."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open both pipes from both ends: neither waits for a copy that has not come so far."""
        self._asked, self._answers = (os.open(folder / f"{name}.{end}", os.O_RDWR) for end in ("in", "out"))
        self._rest = b""

    def ask(self, command: str) -> None:
        """Send a command; the answer is read later, so that both work at once."""
        os.write(self._asked, command.encode() + b"\n")

    def answer(self) -> str:
        """Read the answer.

        Raises:
            TimeoutError: none came; the copy has ended.
        """
        while b"\n" not in self._rest:
            if not select.select([self._answers], [], [], PATIENCE_SECONDS)[0]:
                raise TimeoutError("a copy does not answer")
            self._rest += os.read(self._answers, 1 << 20)
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode()

    def close(self) -> None:
        """Let go of the pipes."""
        os.close(self._asked)
        os.close(self._answers)


def two_copies(which: str, all_of_it: ExitStack) -> list[Copy]:
    """Start the program in a pid namespace and copy it twice; the original stands still until the stack is closed."""
    folder = Path(all_of_it.enter_context(tempfile.TemporaryDirectory(prefix="torpor-drift-")))
    for name in "ab":
        os.mkfifo(folder / f"{name}.in")
        os.mkfifo(folder / f"{name}.out")
    outside = all_of_it.enter_context(
        subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", *COMMANDS[which], str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )
    all_of_it.callback(outside.kill)
    assert outside.stdin is not None
    assert outside.stdout is not None
    assert outside.stdout.readline() == b"ready\n"
    [original] = map(int, Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text().split())
    ptraced.copy(original, 2)
    os.kill(original, signal.SIGSTOP)
    outside.stdin.write(b"ab")
    outside.stdin.flush()
    copies = [Copy(folder, name) for name in "ab"]
    for copy in copies:
        all_of_it.callback(copy.close)
    return copies


def equal_calls(which: str, most: int = MOST_CALLS) -> int | None:
    """Return how many calls both copies made equal, or None if they still were after `most`."""
    with ExitStack() as all_of_it:
        copies = two_copies(which, all_of_it)
        for before in range(0, most, BLOCK):
            for copy in copies:
                copy.ask(f"draw {BLOCK}")
            first, second = (copy.answer() for copy in copies)
            if first == second:
                continue
            for copy in copies:
                copy.ask("values")
            values = [bytes.fromhex(copy.answer()) for copy in copies]
            return before + first_different(*values)
    return None


def first_different(one: bytes, other: bytes) -> int:
    """Return the number of values before the first that differs."""
    return next(at // BYTES for at in range(0, len(one), BYTES) if one[at : at + BYTES] != other[at : at + BYTES])


def main() -> None:
    """Say it."""
    for which in sys.argv[1:] or COMMANDS:
        began = time.monotonic()
        calls = equal_calls(which)
        print(f"{which}: {calls} calls equal, {time.monotonic() - began:.0f} s")  # noqa: T201 - it answers on standard output


if __name__ == "__main__":
    main()
