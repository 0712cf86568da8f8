"""`torpor init --agent`: what it writes works as it is, asks a person, and says clearly what is missing for a real model."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.shell import environment
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.shell import Shell, Terminal

pytestmark = pytest.mark.slow


def rehearsed(shell: Shell, **more: str) -> str:
    """Run the test that was written, and return what pytest says last."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_agent.py"],
        cwd=shell.folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    return done.stdout.splitlines()[-1]


def test_what_is_written_works(shell: Shell, terminal: Callable[..., Terminal]) -> None:
    """Its test passes; on a terminal it is run, an approval is typed, and the answer comes; nothing is overwritten."""
    (shell.folder / "shop.py").unlink()
    assert shell.ok("init", "--agent") == {"written": ["agent.py", "test_agent.py", ".gitignore"], "kept": []}
    assert "1 passed" in rehearsed(shell)
    going = terminal("run", "support", "Please refund order 88121")
    going.until("approve refund? [y]es, [n]o, [e]dit ")
    going.type("y\n")
    code, rest = going.end()
    assert (code, "Your 40 dollars are on their way." in rest) == (0, True)
    assert shell.ok("init", "--agent") == {"written": [], "kept": ["agent.py", "test_agent.py"]}


def test_a_model_that_cannot_be_asked_is_said_before_anything_is_lost(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key, no such model, no model at all: one line and a hint, and an open run stays as it is."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (shell.folder / "shop.py").unlink()
    shell.ok("init", "--agent")
    assert shell.run("run", "support", "Please refund order 88121").code == 5
    before = shell.ok("ps")["runs"]
    for model, said in (
        ("openai:gpt-5-mini", "OPENAI_API_KEY"),
        ("opnai:gpt-5-mini", "Unknown model: opnai:gpt-5-mini"),
    ):
        for words in (("run", "support", "Please refund order 88121"), ("worker", "agent.py", "--until-idle")):
            done = shell.run(*words, TORPOR_MODEL=model)
            first, second = done.err.splitlines()
            assert (done.code, said in first, second.startswith("hint: nothing was taken up")) == (2, True, True), done
    assert shell.ok("ps")["runs"] == before
    assert shell.run("init", "--agent", "--model", "gpt 5").code == 2
    refused = shell.run("init", "fresh", "--agent", "--model", "nonsense:foo")
    assert (refused.code, refused.err.splitlines()) == (
        2,
        [
            "error: --model nonsense:foo: pydantic-ai knows no provider of that name",
            "hint: provider:name, as openai:gpt-5-mini",
        ],
    )
    assert not (shell.folder / "fresh").exists()
    assert shell.run("init", "--model", "openai:gpt-5-mini").code == 2


def test_its_test_needs_no_key(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rehearsed whatever model was written down, and `init` says how it is run and what needs a key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (shell.folder / "shop.py").unlink()
    done = shell.run("init", "--agent", "--model", "openai:gpt-5-mini")
    assert done.out.splitlines()[-3:] == [
        "openai:gpt-5-mini needs its provider's key in the environment; the test needs none",
        'next: torpor run agent.py support "Please refund order 88121"',
        "      pytest test_agent.py",
    ]
    assert "1 passed" in rehearsed(shell)
    assert "1 passed" in rehearsed(shell, TORPOR_MODEL="anthropic:claude-x")


def test_a_model_is_written_down(shell: Shell) -> None:
    """Any name of pydantic-ai's."""
    assert shell.run("init", "fresh", "--agent", "--model", "gateway/openai:gpt-5-mini").code == 0
    assert '"TORPOR_MODEL", "gateway/openai:gpt-5-mini")' in (shell.folder / "fresh" / "agent.py").read_text("utf-8")
