"""`python -m torpor.rouse run`: a program is all that it started. Real processes, a real terminal."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.test_command_line import PROGRAM, QUICK, ROUSE, host_says, running, start
from tests.rouse.test_watching import Child, child
from torpor.rouse.group import members

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLAIN = """
import json, os, sys
os.write(1, (json.dumps({"started": os.getpid(), "blocked": []}) + "\\n").encode())
heard = sys.stdin.readline()
os.write(1, (json.dumps({"heard": heard.strip()}) + "\\n").encode())
"""
"""Has no handler for anything; reads one line."""
CONTROLLED = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp('sh', ['sh', *sys.argv[1:]])"
)


def below_a_shell(program: str, *arguments: str) -> tuple[str, ...]:
    """As `npm start` does it: the shell waits for the program, and does not become it."""
    return ("sh", "-c", f"{shlex.join([sys.executable, '-c', program, *arguments])}; true")


@pytest.mark.slow
@pytest.mark.parametrize("manners", ["polite", "stubborn"])
def test_what_a_shell_started_is_ended_before_the_new_one_starts(tmp_path: Path, manners: str) -> None:
    """The shell dies of SIGTERM at once; the program below it is waited for, or killed after the grace."""
    command = (*ROUSE, "run", *QUICK, "--restart", "--grace", "0.2", "--", *below_a_shell(PROGRAM, manners))
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        first = start(watched)
        group = os.getpgid(first)
        assert group not in {first, os.getpgid(watched.process.pid)}
        host_says(tmp_path, "1")
        watched.until("got", "SIGTERM")
        second = start(watched)
        assert members(group) == []
        group = os.getpgid(second)
        watched.process.send_signal(signal.SIGTERM)  # whoever ends `run` ends them all, too
        watched.until("got", "SIGTERM")
        assert watched.process.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
        assert members(group) == []


@pytest.mark.slow
def test_a_signal_reaches_who_waits_for_it_below_a_shell(tmp_path: Path) -> None:
    """The shell, which would die of it, lives on."""
    command = (*ROUSE, "run", *QUICK, "--signal", "USR1", "--", *below_a_shell(PROGRAM, "polite"))
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        first, shells = start(watched), running(watched.process.pid)
        host_says(tmp_path, "1")
        watched.until("got", "SIGUSR1")
        assert running(watched.process.pid) == shells
        assert first in members(os.getpgid(first))


@pytest.mark.slow
def test_a_program_without_a_handler_is_said_to_have_none(tmp_path: Path) -> None:
    """Nobody in its group waits for the signal: it dies of it, is not started again, and a person reads what to do."""
    command = (*ROUSE, "run", *QUICK, "--signal", "USR2", "--", sys.executable, "-c", PLAIN)
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        start(watched)
        host_says(tmp_path, "1")
        assert watched.process.wait(PATIENCE_SECONDS) == 128 + signal.SIGUSR2
        assert watched.process.stderr is not None
        said = watched.process.stderr.read().decode()
        assert "had no handler for SIGUSR2" in said
        assert "hint: --restart" in said


@pytest.mark.slow
def test_without_a_choice_it_is_restarted(tmp_path: Path) -> None:
    """That is what a program without a handler needs."""
    command = (*ROUSE, "run", *QUICK, "--", sys.executable, "-c", PLAIN)
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        first = start(watched)
        host_says(tmp_path, "1")
        assert start(watched) != first


@pytest.mark.slow
def test_the_group_does_not_outlive_run(tmp_path: Path) -> None:
    """`run` is killed, and can do nothing any more; the program below the shell is ended all the same."""
    command = (*ROUSE, "run", *QUICK, "--restart", "--grace", "0.2", "--", *below_a_shell(PROGRAM, "stubborn"))
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        start(watched)
        watched.process.kill()
        watched.until("got", "SIGTERM")
        assert watched.process.stdout is not None
        assert watched.process.stdout.read() == b""  # to its end, which comes when the last of them is gone


@pytest.mark.slow
def test_what_cannot_be_started_again_is_not_said_to_be(tmp_path: Path) -> None:
    """The program is gone meanwhile: as a shell answers, and no word of a restart."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, '-c', PLAIN])}\n")
    program.chmod(0o755)
    command = (*ROUSE, "run", *QUICK, "--restart", "--", str(program))
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        start(watched)
        program.unlink()
        host_says(tmp_path, "1")
        assert watched.process.wait(PATIENCE_SECONDS) == 127
        assert watched.process.stderr is not None
        said = watched.process.stderr.read().decode()
        assert f"not started again: {program}" in said
        assert "restarted:" not in said


@contextmanager
def at_a_terminal(script: str) -> Iterator[tuple[Child, int]]:
    """A shell with a terminal of its own, whose keys are pressed by writing to a number."""
    keys, screen = os.openpty()
    modes = termios.tcgetattr(screen)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(screen, termios.TCSANOW, modes)
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLED, "-c", script], stdin=screen, stdout=screen, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:  # fmt: skip
        os.close(screen)
        process.stdout = os.fdopen(keys, "r+b", buffering=0)
        try:
            yield Child(process), keys
        finally:
            process.kill()


RUN = shlex.join([sys.executable, *ROUSE, "run", *QUICK, "--tick", "60", "--"])
SAYS = "echo '{\"aside\": true}'"
READS = 'read line; echo "{\\"shell\\": \\"$line\\"}"'


@pytest.mark.slow
def test_the_terminal_is_the_programs_while_it_runs() -> None:
    """It reads; Ctrl-C ends it alone; then the shell reads."""
    reads, ends = (
        f"{RUN} {shlex.join([sys.executable, '-c', PLAIN])}",
        f"{RUN} {shlex.join(below_a_shell(PROGRAM, 'polite'))}",
    )
    with at_a_terminal(f"{reads}; {ends}; {READS}") as (terminal, keys):
        start(terminal)
        os.write(keys, b"one\n")
        assert terminal.until("heard") == {"heard": "one"}
        start(terminal)
        os.write(keys, b"\x03")
        assert terminal.until("got") == {"got": "SIGINT"}
        os.write(keys, b"two\n")
        assert terminal.until("shell") == {"shell": "two"}
        assert terminal.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_a_program_is_put_aside_and_taken_up_again() -> None:
    """Ctrl-Z stops `run` as well, so that the shell goes on; `fg` lets both go on, in the foreground."""
    script = f"set -m; {RUN} {shlex.join([sys.executable, '-c', PLAIN])}; {SAYS}; fg > /dev/null; {READS}"
    with at_a_terminal(script) as (terminal, keys):
        start(terminal)
        os.write(keys, b"\x1a")
        assert terminal.until("aside")
        os.write(keys, b"again\n")
        assert terminal.until("heard") == {"heard": "again"}
        os.write(keys, b"end\n")
        assert terminal.until("shell") == {"shell": "end"}
