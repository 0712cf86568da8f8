"""The whole demo as a user runs it: real processes, killed and frozen, on both stores; and its ends before the end."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = """
import sys
from torpor.demo import run
run.MOST_SECONDS = 280.0
path, store, as_json, lease_seconds = sys.argv[1:]
sys.exit(run.command(path, store=store or None, json=as_json == "json", lease_seconds=float(lease_seconds)))
"""
FIELDS = (
    *("run", "files", "steps", "effects", "effects_repeated", "steps_lost"),
    *("kills", "takeovers", "takeover_ms", "resume_ms", "store"),
)


def demo(folder: Path, store: str = "", *, as_json: bool, lease_seconds: float) -> list[str]:
    """Return the command that audits a folder."""
    return [sys.executable, "-c", SCRIPT, str(folder), store, "json" if as_json else "", str(lease_seconds)]


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    """Return a folder with a hundred files to audit, some of them odd: more checkpoints than are kept whole."""
    folder = tmp_path / "audited"
    folder.mkdir()
    for number in range(7):
        (folder / f"{number}.py").write_text(f"def f{number}(): pass\n")
    for number in range(90):
        (folder / f"clean{number}").write_text("nothing to say\n")
    (folder / "broken.py").write_bytes(b"def f(:\n")
    (folder / os.fsdecode(b"odd\n\xff.txt")).write_bytes(b"blank \r\nmixed\n")
    (folder / "empty").touch()
    (folder / "binary").write_bytes(b"\0\1")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_nothing_is_repeated_and_nothing_is_lost(
    kind: str, audited: Path, tmp_path: Path, server_url: Callable[[str], str]
) -> None:
    """One worker killed inside an effect, one frozen past its lease: the service and the journal agree entry by entry."""
    store = f"{server_url('postgres')}?schema=demo_{secrets.token_hex(4)}" if kind == "postgres" else ""
    command = demo(audited, store, as_json=True, lease_seconds=10)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout)
    assert tuple(said) == FIELDS
    assert said["store"] == (store or "sqlite:///.torpor/demo.db")
    assert (said["files"], said["steps"], said["effects"]) == (100, 208, 101)
    assert (said["effects_repeated"], said["steps_lost"], said["kills"]) == (0, 0, 1)
    assert said["takeovers"] >= 2
    assert 0 < said["takeover_ms"] < 1_000 * PATIENCE_SECONDS
    assert 0 < said["resume_ms"] < 1_000 * PATIENCE_SECONDS
    report = (tmp_path / ".torpor" / "report.md").read_text()
    assert "100 files" in report
    assert "## `odd\\n\\xff.txt`" in report
    assert not list((tmp_path / ".torpor").glob("*.log"))


def children(pid: int) -> list[int]:
    """Return a file that becomes readable when it ends, for each child of a process."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [os.pidfd_open(int(child)) for child in listed.split()]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind(number: signal.Signals, audited: Path, tmp_path: Path) -> None:
    """Interrupted while one worker is frozen, the demo ends every process it started, or the kernel does."""
    command = demo(audited, as_json=False, lease_seconds=60)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("SIGSTOP in a step" in line for line in process.stdout)
        left = children(process.pid)
        assert len(left) == 3, "two workers and the service: one worker was killed"
        process.send_signal(number)
        last = process.stdout.read()
        expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
        assert process.wait() == expected[number]
        assert ("interrupted: the demo's processes are ended" in last) == (number is not signal.SIGKILL)
    for child in left:
        assert select.select([child], [], [], PATIENCE_SECONDS)[0], "it outlived the demo"
        os.close(child)


@pytest.mark.slow
def test_a_worker_that_dies_by_itself_ends_the_demo(audited: Path, tmp_path: Path) -> None:
    """It is said which, with the place of its log, and nothing is called proven."""
    command = demo(audited, as_json=False, lease_seconds=60)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any("SIGSTOP in a step" in line for line in process.stdout)
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii").split()
        idle = next(pid for pid in listed if b"torpor.demo.worker" in cmdline(pid) and state(pid) != "T")
        os.kill(int(idle), signal.SIGKILL)
        said = process.stderr.read()
        assert process.wait() == 1
    assert "ended by itself (exit code -9)" in said
    assert "proof" not in said


def cmdline(pid: str) -> bytes:
    """Return the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def state(pid: str) -> str:
    """Return the letter for a process's state; T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
