"""`python -m torpor.rouse`: watch, explain, run. Real programs, real signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.test_watching import child
from torpor import rouse
from torpor.rouse.__main__ import main
from torpor.rouse.detectors.outside import explain
from torpor.rouse.detectors.vmclock import Vmclock

if TYPE_CHECKING:
    from tests.rouse.test_watching import Child

ROUSE = ("-u", "-m", "torpor.rouse")
QUICK = ("--tick", "0.05", "--freeze", "0.3")
PROGRAM = """
import json, os, random, signal, sys

def say(**line):
    os.write(1, (json.dumps(line) + "\\n").encode())

def signalled(number, frame):
    say(got=signal.Signals(number).name)
    if number in (signal.SIGTERM, signal.SIGINT):
        if sys.argv[1] != "stubborn":
            raise SystemExit(41)

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
    signal.signal(number, signalled)
say(started=os.getpid(), drawn=random.random(), blocked=[int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])])
while True:
    signal.pause()
"""


def host_says(folder: Path, text: str) -> None:
    """In one piece."""
    (folder / "new").write_text(text)
    (folder / "new").replace(folder / "generation")


def start(watched: Child) -> int:
    """Wait for the program; its number. It has no signal blocked that its parent blocks for itself."""
    line = watched.until("started")
    assert line["blocked"] == []
    return int(line["started"])


@pytest.mark.slow
def test_watch_prints_a_line_for_each_rousal(tmp_path: Path) -> None:
    """As JSON here; it ends on SIGTERM as if nothing had been wrong."""
    with child(*ROUSE, "watch", "--json", *QUICK, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        assert watched.process.stderr is not None
        assert b"host file" in watched.process.stderr.readline()
        watched.stop_for_a_while()
        assert watched.until_frozen()["certain"] is False
        host_says(tmp_path, '{"event": 1, "kind": "rolled_back"}')
        assert "host says 1" in watched.until("kind", "rolled_back")["evidence"][0]
        watched.process.terminate()
        assert watched.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_watch_names_what_it_watches_with(tmp_path: Path) -> None:
    """The socket that it listens at among them; one that it could not open it warns of, and does not name."""
    place = {"ROUSE_HOST_SOCKET": str(tmp_path / "host"), "ROUSE_HOST_FILE": str(tmp_path / "no" / "generation")}
    with child(*ROUSE, "watch", *QUICK, **place) as watched:
        assert watched.process.stderr is not None
        assert b"$ROUSE_HOST_FILE" in watched.process.stderr.readline()
        named = watched.process.stderr.readline().decode().removeprefix("rouse: watching, with ").strip().split(", ")
        assert "host socket" in named
        assert "frozen" in named
        assert "host file" not in named
        watched.process.terminate()
        assert watched.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_run_signals_the_program(tmp_path: Path) -> None:
    """With the signal asked for; others are passed on; the exit status comes back."""
    command = (*ROUSE, "run", *QUICK, "--signal", "HUP", "--", sys.executable, "-c", PROGRAM, "polite")
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        start(watched)
        host_says(tmp_path, "1")
        watched.until("got", "SIGHUP")
        watched.process.send_signal(signal.SIGUSR1)
        watched.until("got", "SIGUSR1")
        watched.process.send_signal(signal.SIGTERM)
        watched.until("got", "SIGTERM")
        assert watched.process.wait(PATIENCE_SECONDS) == 41


@pytest.mark.slow
@pytest.mark.parametrize("manners", ["polite", "stubborn"])
def test_run_restarts_the_program(tmp_path: Path, manners: str) -> None:
    """A new process, born after the rousal; one that does not want to end is killed after the grace."""
    command = (*ROUSE, "run", *QUICK, "--restart", "--grace", "0.2", "--", sys.executable, "-c", PROGRAM, manners)
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        first = start(watched)
        os.kill(first, signal.SIGSTOP)  # it is stopped, and must end all the same
        host_says(tmp_path, "1")
        watched.until("got", "SIGTERM")
        second = start(watched)
        assert second != first
        os.kill(second, signal.SIGKILL)
        assert watched.process.wait(PATIENCE_SECONDS) == 128 + signal.SIGKILL


_IN_PYTHON = """
import json, random, signal

def draw(*_):
    print(json.dumps({"drawn": random.random()}), flush=True)

signal.signal(signal.SIGUSR2, draw)
draw()
while True:
    signal.pause()
"""
_IN_NODE = """
const draw = () => console.log(JSON.stringify({drawn: Math.random()}))
process.on('SIGUSR2', draw)
draw()
setInterval(() => {}, 1000)
"""
GENERATORS = {sys.executable: ("-c", _IN_PYTHON), "node": ("-e", _IN_NODE)}
"""Programs with a generator of their own, which draw at their start and at SIGUSR2; Node where it is installed."""


@pytest.mark.slow
@pytest.mark.parametrize("program", [each for each in GENERATORS if shutil.which(each)])
def test_a_program_with_generators_of_its_own(tmp_path: Path, program: str) -> None:
    """It goes on drawing after a rousal that it is told of by a signal, and with `--restart` it is another one that draws."""
    for ways in (("--signal", "USR2"), ("--restart",)):
        command = (*ROUSE, "run", *QUICK, *ways, "--", program, *GENERATORS[program])
        with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
            drawn = [watched.until("drawn")["drawn"]]
            first = running(watched.process.pid)
            host_says(tmp_path, f"{ways}")
            drawn.append(watched.until("drawn")["drawn"])
            assert (running(watched.process.pid) == first) is (ways != ("--restart",))
            assert len(set(drawn)) == 2
            watched.process.send_signal(signal.SIGTERM)
            assert watched.process.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM


def running(parent: int) -> list[str]:
    """Return the programs below a process."""
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["/nowhere/program"], 127),
        (["/"], 126),
    ],
)
def test_run_passes_the_exit_status_on(command: list[str], status: int) -> None:
    """As a shell would."""
    done = subprocess.run(
        [sys.executable, *ROUSE, "run", "--", *command], capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == status, done.stderr


@pytest.mark.slow
def test_a_signal_that_is_passed_on_does_not_keep_it_from_being_restarted(tmp_path: Path) -> None:
    """Log rotation, say, while it ends; and nobody reads what `run` says of it."""
    command = (*ROUSE, "run", *QUICK, "--restart", "--grace", "1", "--", sys.executable, "-c", PROGRAM, "stubborn")
    with child(*command, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        assert watched.process.stderr is not None
        watched.process.stderr.close()
        first = start(watched)
        host_says(tmp_path, "1")
        watched.until("got", "SIGTERM")
        watched.process.send_signal(signal.SIGUSR1)
        watched.until("got", "SIGUSR1")
        assert start(watched) != first


@pytest.mark.slow
def test_watch_ends_when_nobody_reads_it(tmp_path: Path) -> None:
    """As `watch | head -1` wants; before, it says what the host calls by letters that are none."""
    place = tmp_path / "generation"
    with child(*ROUSE, "watch", *QUICK, ROUSE_HOST_FILE=str(place), PYTHONIOENCODING="utf-8") as watched:
        assert watched.process.stderr is not None
        assert watched.process.stdout is not None
        watched.process.stderr.readline()
        host_says(tmp_path, '{"event": "\\ud800"}')
        assert b"\\ud800" in watched.process.stdout.readline()
        watched.process.stdout.close()
        host_says(tmp_path, "2")
        assert watched.process.wait(PATIENCE_SECONDS) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "--signal", "NONE", "--", "true"],
        ["run", "--"],
        ["run", "--", ""],
        ["run", "--tick", "0", "--", "true"],
        ["watch", "--freeze", "nan"],
        ["run", "--grace", "nan", "--", "true"],
        ["run", "--grace", "inf", "--", "true"],
        ["run", "--grace", "-3", "--", "true"],
        ["run", "--grace", "soon", "--", "true"],
        ["run", "--restart", "--signal", "USR2", "--", "true"],
        [],
    ],
)
def test_mistakes_are_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With how it is called."""
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert "usage: " in capsys.readouterr().err


def test_help_says_what_is_usual(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number that may be given, and which of the two ways."""
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    lines = {words[0]: line for line in capsys.readouterr().out.splitlines() if (words := line.split())}
    usual = {"--tick": "(1)", "--freeze": "(2)", "--grace": "(10)", "--restart": "(the default)"}
    assert all(lines[option].endswith(value) for option, value in usual.items())


@pytest.mark.slow
def test_watch_prints_a_line_whatever_the_host_says(tmp_path: Path) -> None:
    """No letter of it moves the cursor, or begins a line."""
    with child(*ROUSE, "watch", *QUICK, ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        assert watched.process.stderr is not None
        assert watched.process.stdout is not None
        watched.process.stderr.readline()
        host_says(tmp_path, "red \x1b[31m\nline\u2028\u00e9")
        while b"red" not in (line := watched.process.stdout.readline()):
            assert line
        assert line.decode().endswith("red \\x1b[31m\\nline\\u2028\u00e9\n")


def test_explain_names_what_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not only that something is not."""
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'bus'}")
    monkeypatch.setattr(Vmclock.__init__, "__defaults__", (str(tmp_path / "clock"),))
    why_not = {about.name: about.why_not for about in explain()}
    assert why_not["logind"] == f"{tmp_path / 'bus'}: No such file or directory"
    assert why_not["vmclock"] == f"{tmp_path / 'clock'}: No such file or directory"


def test_explain_is_a_table_and_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each detector, best first, whether it works here, and what it cannot see."""
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["explain"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split("  ")[0] == "detector"
    assert max(map(len, table)) <= 100
    assert main(["explain", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"process", "suspended", "stepped", "frozen", "moved"} <= {
        about["name"] for about in found if about["works"]
    }
    assert set(found[0]["paragraphs"]) == {"Sees", "Cannot see", "Needs", "Cost", "Fallback"}


def test_it_runs_from_a_zip_with_nothing_installed(tmp_path: Path) -> None:
    """In a guest: a zip of this room, and Python alone."""
    room = Path(rouse.__file__).parent
    with zipfile.ZipFile(tmp_path / "rouse.zip", "w") as zipped:
        for path in room.rglob("*.py"):
            zipped.write(path, Path("rouse") / path.relative_to(room))
    done = subprocess.run(
        [sys.executable, "-S", "-W", "error", "-m", "rouse", "run", "--", "sh", "-c", "exit 3"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "rouse.zip")},
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "")
