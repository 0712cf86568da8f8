"""The agent's demo as a user runs it: real processes, a real repository, the real MCP server, on both stores."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import secrets
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.demo.recording import TAPE, model, record
from tests.patience import PATIENCE_SECONDS
from torpor import UsageError
from torpor.demo.agent import repository, run
from torpor.testing.tape import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCRIPT = """
import json, sys
from torpor.demo.agent import run
sys.exit(run.command(**json.loads(sys.argv[1])))
"""
FIELDS = ("points", "model_calls_repeated", "paid_lost", "effects_repeated", "usage_equal", "commits")
EVERY = int(os.environ.get("TORPOR_SWEEP_EVERY", "15"))
"""Each so many-th point of the sweep; TORPOR_SWEEP_EVERY=1 has them all."""
EVENTS = [
    "w1 SIGKILL: the model has",
    "w2 took over",
    "asleep: a person",
    "w2 SIGKILL: git has the",
    "w3 took over",
    "commit:",
]


def demo(**options: Any) -> list[str]:
    """Return the command that runs the demo."""
    return [sys.executable, "-c", SCRIPT, json.dumps(options)]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, server_url: Callable[[str], str]) -> str | None:
    """Return a store of each kind."""
    return None if request.param == "sqlite" else f"{server_url('postgres')}?schema=demo_{secrets.token_hex(4)}"


def ran(folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end."""
    return subprocess.run(demo(**options), cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_two_deaths_and_one_commit(url: str | None, tmp_path: Path) -> None:
    """A worker dies with the model's answer, another with the commit: one answer is lost, nothing is done twice."""
    done = ran(tmp_path, store=url, json=True)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout)
    assert tuple(said) == FIELDS
    assert said == dict(zip(FIELDS, (2, 0, 1, 0, True, 1), strict=True))
    log = repository.git(tmp_path / ".torpor" / "agent" / "repository", "log", "--format=%h %s", "-2")
    assert log.splitlines()[0].endswith("Count the last page when it is not full")


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a busy machine takes its time for so many processes
def test_the_sweep(url: str | None, tmp_path: Path) -> None:
    """Wherever the worker dies or is frozen: no call repeated but what died before its record, one commit, all else equal."""
    done = ran(tmp_path, store=url, json=True, sweep=True, every=EVERY)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["points"] >= 45 // EVERY + 3
    assert {name: said[name] for name in FIELDS if name not in {"points", "paid_lost"}} == {
        "model_calls_repeated": 0,
        "effects_repeated": 0,
        "usage_equal": True,
        "commits": 1,
    }
    assert 1 <= said["paid_lost"] <= said["points"]


@pytest.mark.slow
def test_what_people_see(tmp_path: Path) -> None:
    """In 80 columns: what was about to happen when a worker died, the patch, and the proof."""
    done = ran(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    places = [done.stdout.index(event) for event in EVENTS]
    assert places == sorted(places)
    assert "+    return (total + size - 1) // size" in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    assert "answers paid and lost, of deaths before their record          1 of 1" in done.stdout


@pytest.mark.slow
def test_a_person_may_deny_it(tmp_path: Path) -> None:
    """At a terminal with --ask: nothing is committed, and the agent says so."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        demo(ask=True), cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        said = ""
        while "commit it? [y/N]" not in said:
            said += process.stdout.read(1)
        os.write(ours, b"n\n")
        said += process.stdout.read()
        assert process.wait() == 0, said
    for end in (ours, theirs):
        os.close(end)
    assert "mended: Nothing: the commit was denied." in " ".join(said.split())
    assert repository.commits(tmp_path / ".torpor" / "agent" / "repository") == []


@pytest.mark.slow
def test_the_tape_is_true(tmp_path: Path) -> None:
    """Recorded anew, through the MCP server that is installed, it has the same requests and the same answers."""
    tape = tmp_path / "tape.jsonl"
    asyncio.run(record(tape, tmp_path))
    recorded, kept = load(tape), load(TAPE)
    assert [(one.messages, one.answer.parts) for one in recorded.exchanges] == [
        (one.messages, one.answer.parts) for one in kept.exchanges
    ]
    assert (kept.model, kept.note[:16]) == (f"{model().system}:{model().model_name}", "Written by hand,")


def test_what_was_half_done_is_put_back(tmp_path: Path) -> None:
    """An attempt that died after the patch and before the commit leaves nothing in the way of the next one."""
    place = tmp_path / "repository"
    repository.make(place)
    file = next(path for path in sorted(place.iterdir()) if path.is_file())
    before = file.read_text()
    file.write_text("half done")
    repository.git(place, "add", "--all")
    repository.put_back(place)
    assert file.read_text() == before
    (place / ".git" / "index.lock").touch()  # somebody's git that never ends
    with pytest.raises(UsageError, match=r"index\.lock"):
        repository.put_back(place)


def test_the_repository_is_the_same_everywhere(tmp_path: Path) -> None:
    """Its commit ids are known beforehand, whatever a user's git is set to; its own tests do not see what is wrong."""
    repository.make(tmp_path / "repository")
    ids = repository.git(tmp_path / "repository", "log", "--format=%h", "--abbrev=7").split()
    assert ids == ["61f657a", "ea923b6", "9661df6", "0e2e279", "63ea7f8", "824297d"]
    assert repository.commits(tmp_path / "repository") == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind(number: signal.Signals, tmp_path: Path) -> None:
    """Interrupted in the middle, the demo ends the nest, the workers and their MCP servers, or the kernel does."""
    with subprocess.Popen(demo(), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("w2 took over" in line for line in process.stdout)
        left = list(descendants(process.pid))
        assert len(left) >= 2, "the nest and a worker"
        process.send_signal(number)
        last = process.stdout.read()
        assert process.wait() == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
        assert ("interrupted: the demo's processes are ended" in last) == (number is not signal.SIGKILL)
    for child in left:
        assert select.select([child], [], [], PATIENCE_SECONDS)[0], "it outlived the demo"
        os.close(child)


def descendants(pid: int) -> Iterator[int]:
    """Yield a file that becomes readable when it ends, for each process below one."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split():
        yield os.pidfd_open(int(child))
        yield from descendants(int(child))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sweep": True, "model": "test"}, "it takes no --model"),
        ({"sweep": True, "ask": True}, "it takes no --ask"),
        ({"ask": True, "json": True}, "--ask needs a person"),
        ({"every": 0}, "every 0: a number from 1"),
        ({"every": 3}, "--every says where a --sweep dies"),
        ({"model": "nobody:nothing"}, "there is no model 'nobody:nothing' here"),
        ({"model": "openai:gpt-5-mini"}, "there is no model 'openai:gpt-5-mini' here"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before anything is started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match=said):
        run.command(**options)
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the one command that installs it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "find_spec", lambda name: None if name == "mcp_server_git" else object())
    with pytest.raises(UsageError, match="needs mcp-server-git") as caught:
        run.command()
    assert caught.value.hint == "pip install 'torpor[demo]'"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="git is not installed") as caught:
        run.command()
    assert caught.value.hint == "apt-get install git"


def test_the_command_line_hands_it_on(tmp_path: Path) -> None:
    """`torpor demo agent`, and the agent's options with nobody else."""
    torpor = str(Path(sys.executable).with_name("torpor"))
    for given, said in (
        ("agent --every 0", "every 0"),
        (". --sweep", "--sweep, --every, --model and --ask are the agent's"),
    ):
        done = subprocess.run(
            [torpor, "demo", *given.split()], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert said in done.stderr
