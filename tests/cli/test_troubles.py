"""Bad input and bad surroundings: a clear error with a hint, the right exit code, nothing lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from torpor.cli.options import DEFAULT_STORE
from torpor.settings import Settings

if TYPE_CHECKING:
    from tests.cli.shell import Shell

pytestmark = pytest.mark.slow


def test_help_names_every_command_with_an_example(shell: Shell) -> None:
    """`torpor` alone is help; each command's help ends with one example of itself."""
    alone = shell.run()
    assert alone.code == 0
    assert alone.out == shell.run("--help").out
    listed = alone.out.partition("Commands:\n")[2].partition("\n\n")[0]
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    assert names == [
        *("init", "dev", "run", "start", "worker", "ps", "show", "tail"),
        *("signal", "approve", "deny", "answer", "cancel"),
        *("retry", "fork", "rewind", "inbox", "schedules", "doctor", "prune", "migrate", "bench", "demo", "completion"),
    ]
    for name in names:
        said = shell.run(name, "--help")
        assert said.code == 0
        assert f"{name}" in said.out.splitlines()[-1]
        assert "Example: " in said.out
    assert shell.run("--version").out == "torpor 0.1.0\n"


def test_usage_errors(shell: Shell) -> None:
    """A line that cannot be read: exit code 2, and where help is; as a problem object with --json."""
    done = shell.run("shwo")
    assert done.code == 2
    assert done.err.splitlines()[-1] == "hint: torpor --help"
    done = shell.run("start")
    assert (done.code, done.err.splitlines()[-1]) == (2, "hint: torpor start --help")
    assert shell.run("start", "double", "--key").err.splitlines()[-1] == "hint: torpor start --help"
    done = shell.run("ps", "--nope", "--json")
    assert (done.code, done.out, done.problem["type"]) == (2, "", "UsageError")
    assert shell.run("ps", "--state", "sleepy").code == 2
    assert shell.run("bench", "w9").code == 2
    assert shell.run("completion", "tcsh").code == 2


def test_no_store(shell: Shell) -> None:
    """Looking makes no file; an unreachable server and an address of no known form say so."""
    done = shell.run("ps")
    assert (done.code, done.out) == (6, "")
    assert done.err.splitlines() == [
        "error: there is no database at torpor.db",
        "hint: torpor dev APP.py, or torpor worker APP.py, makes one",
    ]
    assert not (shell.folder / "torpor.db").exists()
    assert shell.run("ps", "--store", "postgresql://nobody@127.0.0.1:1/none").code == 6
    assert shell.run("ps", TORPOR_STORE="mysql://x").code == 2
    done = shell.run("worker", "shop.py", "--store", "sqlite:foo.db")
    assert (done.code, done.err.splitlines()[1]) == (2, "hint: sqlite:///foo.db")
    assert not list(shell.folder.glob("*foo.db"))
    assert Settings.model_fields["store"].default == DEFAULT_STORE


def test_another_schema(shell: Shell, runs: dict[str, str]) -> None:
    """A store of a newer torpor is refused by every command with exit code 6, and left as it is."""
    assert runs
    with closing(sqlite3.connect(shell.folder / "torpor.db")) as database, database:
        database.execute("PRAGMA user_version = 99")
    for words in (["ps"], ["start", "double", "4"], ["worker", "shop.py"], ["migrate"]):
        done = shell.run(*words)
        assert done.code == 6
        assert "schema is 99" in done.err
        assert "hint: " in done.err


def test_a_damaged_file(shell: Shell, runs: dict[str, str]) -> None:
    """No database at all is exit code 6; a page of one that is damaged is an error of the doctor, exit code 7."""
    assert runs
    (shell.folder / "text.db").write_text("this is no database, but long enough to look like one\n" * 200, "utf-8")
    done = shell.run("ps", "--store", "sqlite:///text.db")
    assert done.code == 6
    assert done.err.startswith("error: text.db is damaged or no torpor database")
    file = shell.folder / "torpor.db"
    with closing(sqlite3.connect(file)) as database, database:
        page_bytes = database.execute("PRAGMA page_size").fetchone()[0]
        page = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rows'").fetchone()[0]
    content = bytearray(file.read_bytes())
    content[(page - 1) * page_bytes : page * page_bytes] = b"\xff" * page_bytes
    file.write_bytes(content)
    done = shell.run("doctor")
    if done.code == 7:
        assert "error store" in done.out
        assert "is damaged" in done.out
    else:  # the page was touched before the check
        assert (done.code, "is damaged" in done.err) == (6, True)


def test_two_apps_with_one_name(shell: Shell) -> None:
    """While a worker serves a program, another app that has one of the same name is refused with exit code 4."""
    (shell.folder / "other.py").write_text((shell.folder / "shop.py").read_text("utf-8"), "utf-8")
    with shell.going("worker", "shop.py") as worker:
        assert worker.stderr is not None
        assert any("works on" in line for line in worker.stderr)
        for words in (["worker", "other.py"], ["dev", "other.py"], ["start", "double", "4", "--app", "other.py"]):
            done = shell.run(*words)
            assert done.code == 4
            assert 'two apps have a program named "acts": shop:acts is being served' in done.err


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("none.py", None, "there is no file none.py", "torpor init writes one to begin with"),
        ("empty.py", "x = 1\n", "empty.py has 0 Apps (none)", "app = App() at the top of the file"),
        ("two.py", "from torpor import App\na, b = App(), App()\n", "two.py has 2 Apps (a, b)", "name one: two.py:app"),
        (
            "bare.py",
            "from torpor import App\napp = App()\n",
            "the app has no flow",
            "@app.flow above an async function",
        ),
        (
            "bare.py:b",
            "from torpor import App\napp = App()\n",
            "bare.py has no App named 'b' (it has: app)",
            "app = App()",
        ),
    ],
)
def test_no_app(shell: Shell, name: str, content: str | None, message: str, hint: str) -> None:
    """A file without exactly one App says how many it has, and what to write."""
    if content is not None:
        (shell.folder / name.partition(":")[0]).write_text(content, "utf-8")
    for command in ("worker", "dev"):
        done = shell.run(command, name)
        assert (done.code, done.out) == (2, "")
        assert done.err.splitlines()[0] == f"error: {message}"
        assert done.err.splitlines()[1].startswith(f"hint: {hint}")


def test_an_author_s_error_is_cut_to_the_author_s_code(shell: Shell) -> None:
    """A traceback shows their lines and none of torpor's; --debug shows all; a syntax error shows its place."""
    (shell.folder / "bad.py").write_text("from torpor import App\n\n\ndef f():\n    return 1 / 0\n\n\nf()\n", "utf-8")
    done = shell.run("worker", "bad.py")
    assert done.code == 1
    assert "ZeroDivisionError: division by zero" in done.err
    assert 'bad.py", line 8, in <module>' in done.err
    assert "torpor/runtime.py" not in done.err
    assert "torpor/runtime.py" in shell.run("worker", "bad.py", "--debug").err
    (shell.folder / "bad.py").write_text("def f(:\n", "utf-8")
    done = shell.run("worker", "bad.py")
    assert (done.code, done.err.splitlines()[-1]) == (1, "SyntaxError: invalid syntax")


def test_bad_settings(shell: Shell) -> None:
    """A variable that makes no sense is named; nothing begins."""
    done = shell.run("worker", "shop.py", TORPOR_CONCURRENCY="many")
    assert done.code == 2
    assert done.err.startswith("error: TORPOR_CONCURRENCY=many makes no sense")
