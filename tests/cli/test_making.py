"""init, migrate, completion, and a pipe that nobody reads."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.shell import TORPOR, environment
from torpor.store.migrate import newest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.shell import Shell

pytestmark = pytest.mark.slow


def test_init_writes_a_program_that_works(shell: Shell) -> None:
    """It runs as it is, nothing is overwritten, and a second time changes nothing."""
    folder = shell.folder / "fresh"
    done = shell.run("init", "fresh")
    assert (done.code, done.out.splitlines()[-1]) == (0, "next: torpor dev fresh/hello.py")
    assert (folder / ".gitignore").read_text("utf-8") == "torpor.db*\n"
    run = shell.run("run", "fresh/hello.py", "greet", '"Ana"', "--timeout", "0")
    assert run.code == 124
    (folder / "hello.py").write_text("mine\n", "utf-8")
    (folder / ".gitignore").write_text("*.log\n", "utf-8")
    assert shell.ok("init", "fresh") == {"written": ["fresh/.gitignore"], "kept": ["fresh/hello.py"]}
    assert (folder / "hello.py").read_text("utf-8") == "mine\n"
    assert (folder / ".gitignore").read_text("utf-8") == "*.log\ntorpor.db*\n"


def test_dev_without_a_name(shell: Shell) -> None:
    """In a folder without an app it says how to begin, in one with several it asks which."""
    (shell.folder / "shop.py").rename(shell.folder / "one.txt")
    done = shell.run("dev")
    assert (done.code, done.err.splitlines()[1]) == (2, "hint: torpor init writes hello.py; then torpor dev hello.py")
    for name in ("a.py", "b.py"):
        (shell.folder / name).write_text("from torpor import App\napp = App()\n", "utf-8")
    assert shell.run("dev").err.splitlines() == ["error: which app? a.py, b.py", "hint: torpor dev a.py"]


def test_migrate(shell: Shell, runs: dict[str, str]) -> None:
    """A store that is up to date is left alone; one that is not there is not made."""
    schema = newest("sqlite")
    assert shell.ok("migrate") == {"before": schema, "after": schema}
    assert shell.run("migrate").out == f"schema {schema}, nothing to do\n"
    assert shell.run("migrate", "--store", "sqlite:///none.db").code == 6
    assert len(shell.ok("ps", "--all")["runs"]) == len(runs)


def words(shell: Shell, *typed: str) -> list[str]:
    """Return what completes the last of these words."""
    return shell.run("__complete", "--", *typed).out.split()


def test_completion(shell: Shell, runs: dict[str, str]) -> None:
    """Commands, flags, and what the store has; silence when there is none."""
    assert words(shell, "in") == ["init", "inbox"]
    assert "--digest" in words(shell, "approve", "--d")
    assert words(shell, "completion", "") == ["bash", "zsh", "fish"]
    assert set(words(shell, "show", "")) <= set(runs.values())
    assert set(words(shell, "start", "")) <= {"acts", "broken", "double", "hears", "naps", "sends"}
    (shell.folder / "torpor.db").rename(shell.folder / "away.db")
    assert words(shell, "show", "") == []
    for name, begins in (("bash", "_torpor()"), ("zsh", "#compdef torpor"), ("fish", "function __torpor_complete")):
        assert shell.run("completion", name).out.startswith(begins)


def test_the_bash_script_completes(shell: Shell, tmp_path: Path) -> None:
    """What it prints is a script that bash takes and that completes a command."""
    script = tmp_path / "torpor.bash"
    script.write_text(shell.run("completion", "bash").out, "utf-8")
    torpor = f'torpor() {{ {" ".join(TORPOR)} "$@"; }}'
    typed = f"{torpor}; . {script}; COMP_WORDS=(torpor doc); COMP_CWORD=1; _torpor; echo ${{COMPREPLY[0]}}"
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=False, env=environment())
    assert (done.stdout, done.stderr) == ("doctor\n", "")


def test_a_pipe_that_nobody_reads(shell: Shell, runs: dict[str, str]) -> None:
    """`torpor ps | head -0` is no error."""
    assert runs
    typed = f"{' '.join(TORPOR)} ps | head -0; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", typed], capture_output=True, text=True, check=False, env=environment(), cwd=shell.folder
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
