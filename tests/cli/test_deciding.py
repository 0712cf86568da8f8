"""start, signal, cancel, approve, deny, answer: what acts from outside, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.test_reading import wait_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.shell import Shell, Terminal

pytestmark = pytest.mark.slow


def test_start_makes_a_program_known(shell: Shell) -> None:
    """With `--app` no worker is needed first; the same key finds the same run."""
    done = shell.run("start", "double", "4", "--app", "shop.py", "--key", "k")
    run = done.out.split()[0]
    assert (done.code, done.out) == (0, f"{run} started\nnext: torpor show {run}\n")
    assert shell.ok("start", "double", "5", "--key", "k") == {"run": run, "created": False}
    assert shell.run("start", "double", "5", "--key", "k").out.splitlines() == [
        f"{run} was started before with this key; its input was not changed",
        "hint: a run with another input needs another --key",
        f"next: torpor show {run}",
    ]
    later = shell.ok("start", "naps", "1", "--at", "+2h")["run"]
    lines = {line["run"]: line for line in shell.ok("ps")["runs"]}
    assert (lines[run]["shown"], lines[run]["reason"]) == ("ready", "no worker is connected")
    assert (lines[later]["shown"], lines[later]["reason"]) == ("asleep", "starts later")


def test_inputs(shell: Shell, runs: dict[str, str]) -> None:
    """JSON as a word, from a file, from standard input; large numbers keep every digit."""
    assert runs
    (shell.folder / "input.json").write_text('{"n": 123456789012345678901234567890}', "utf-8")
    from_file = shell.ok("start", "hears", "@input.json")["run"]
    assert shell.ok("show", from_file)["state"] == {"n": "123456789012345678901234567890"}
    from_pipe = shell.run("start", "hears", "-", "--json", stdin='"go"').document["run"]
    assert shell.ok("show", from_pipe)["state"] == "go"


def test_an_input_that_does_not_fit_starts_nothing(shell: Shell, runs: dict[str, str]) -> None:
    """With the app at hand an input is held against the annotation first, by `start --app` and by `run`."""
    for words in (["start", "double", '"x"', "--app", "shop.py"], ["run", "shop.py", "double", '"x"']):
        done = shell.run(*words)
        assert (done.code, done.out) == (2, "")
        error, hint = done.err.splitlines()
        assert error.startswith("error: the input does not fit int: Input should be a valid integer")
        assert error.endswith(", got 'x'")
        assert hint == "hint: nothing was started; shop:double says what it takes"
    assert len(shell.ok("ps", "--all")["runs"]) == len(runs)


def test_the_wrong_verb(shell: Shell, runs: dict[str, str]) -> None:
    """Approving what is to be settled, or settling what is to be approved, names the commands that do decide it."""
    settle, consent = wait_of(runs["sends torn"], shell), wait_of(runs["sends a1"], shell)
    for words in (["approve", settle], ["approve", settle, "--yes"], ["deny", settle]):
        done = shell.run(*words)
        assert done.code == 2
        error, hint = done.err.splitlines()
        assert error == f'error: {settle} asks to settle refund#1 "torn"'
        assert hint.startswith(f"hint: torpor answer {settle} --happened 'JSON'   or   torpor answer {settle} --again")
    done = shell.run("answer", consent, "--again")
    assert done.code == 2
    assert done.err.splitlines()[1] == f'hint: torpor approve {consent}   or   torpor deny {consent} "reason"'


def test_a_signal_that_nobody_waits_for(shell: Shell, runs: dict[str, str]) -> None:
    """It is kept, and what the run does wait for is said."""
    run = runs["hears go"]
    assert shell.run("signal", run, "goo").out == f"goo is kept for {run}; it waits for: go\nnext: torpor show {run}\n"
    assert shell.run("signal", run, "go").out == f"go is kept for {run}\nnext: torpor show {run}\n"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["double", "Ana"], "the input is not JSON: Expecting value at line 1, column 1: Ana", """quotes: '"Ana"'"""),
        (["double", "{"], "the input is not JSON: Expecting property name", "compare its brackets"),
        (["double", "@none.json"], "none.json cannot be read", "@FILE reads JSON from a file"),
        (["doubles", "4"], 'no program named "doubles" (the store has: acts, broken, dou', "torpor dev APP.py"),
        (
            ["doubles", "4", "--app", "shop.py"],
            'no program named "doubles" in shop.py (it has: acts, broken, dou',
            "start double",
        ),
        (["double", "4", "--at", "soon"], "--at soon is no moment", "2026-12-24T18:00"),
        (["double", "4", "--at", "+99999999999d"], "--at +99999999999d is no moment", "2026-12-24T18:00"),
        (["double", "4", "--deadline", "99999999999d"], "--deadline 99999999999d is no time", "2h, 30m"),
    ],
)
def test_bad_starts(shell: Shell, runs: dict[str, str], words: list[str], message: str, hint: str) -> None:
    """Exit code 2, one line that says what with which values, one with what to do; nothing was started."""
    done = shell.run("start", *words)
    assert (done.code, done.out) == (2, "")
    error, said = done.err.splitlines()
    assert error.startswith(f"error: {message}")
    assert said.startswith("hint: ")
    assert hint in said
    assert len(shell.ok("ps", "--all")["runs"]) == len(runs)


def test_unknown_ids(shell: Shell, runs: dict[str, str]) -> None:
    """Exit code 3 for an id that names nothing, 2 for a word that is none; as a problem object with --json."""
    letters = runs["double 4"].rpartition("-")[2]
    for words in (["show", "zzzz"], ["cancel", "zzzz"], ["signal", "zzzz", "go"], ["inbox", "w-zzzz-1"]):
        assert shell.run(*words).code == 3
    assert f"the one with these letters is {runs['double 4']}" in shell.run("show", f"naps-{letters}").err
    assert shell.run("show", "no").code == 2
    done = shell.run("show", "zzzz", "--json")
    assert (done.code, done.out, set(done.problem)) == (3, "", {"type", "title", "hint", "exit_code"})
    assert done.problem["type"] == "NotFound"


def test_approve_without_a_terminal(shell: Shell, runs: dict[str, str]) -> None:
    """Unseen consent must be said: a digest or --yes. A digest of something else is a conflict; the first one wins."""
    wait = wait_of(runs["sends a1"], shell)
    digest = shell.ok("inbox", wait)["digest"]
    unseen = shell.run("approve", wait)
    assert unseen.code == 2
    assert unseen.err.splitlines()[1] == f"hint: torpor approve {wait} --digest {digest}"
    wrong = shell.run("approve", wait, "--digest", "00ff")
    assert wrong.code == 4
    assert "changed since you looked" in wrong.err
    done = shell.run("approve", wait, "--digest", digest, "--by", "ada", "--note", "fine")
    assert (done.code, done.out) == (0, f"{wait} approved, by ada\nnext: torpor show {runs['sends a1']}\n")
    second = shell.run("deny", wait, "too late", "--by", "ben")
    assert second.code == 4
    assert second.err.startswith(f"error: ada approved {wait} ")
    assert second.err.splitlines()[1] == f"hint: nothing was changed. torpor show {runs['sends a1']}"
    assert shell.run("approve", wait).code == 4
    assert shell.run("worker", "shop.py", "--until-idle").code == 0
    assert shell.ok("show", runs["sends a1"])["result"] == "True fine"
    assert shell.run("approve", wait, "--yes").err.startswith(f"error: ada approved {wait} ")


def test_deny_and_cancel(shell: Shell, runs: dict[str, str]) -> None:
    """A reason goes to the program; cancel is recorded at once, and is final."""
    wait = wait_of(runs["sends a1"], shell)
    denied = shell.ok("deny", wait, "wrong order", "--by", "ben")
    assert denied == {"wait": wait, "run": runs["sends a1"], "decision": "denied", "by": "ben"}
    assert shell.ok("cancel", runs["naps 86400.0"])["already_ended"] is False
    assert "is recorded" in shell.run("cancel", runs["naps 86400.0"]).out
    assert shell.run("worker", "shop.py", "--until-idle").code == 0
    assert shell.ok("show", runs["sends a1"])["result"] == "False wrong order"
    assert shell.ok("cancel", runs["naps 86400.0"]) == {
        "run": runs["naps 86400.0"],
        "state": "cancelled",
        "already_ended": True,
        "descendants": 0,
    }
    assert shell.run("signal", runs["naps 86400.0"], "go").code == 4


def test_settling(shell: Shell, runs: dict[str, str]) -> None:
    """Exactly one answer; `--happened` gives the effect its result."""
    wait = wait_of(runs["sends torn"], shell)
    for words in ([], ["--again", "--fail", "no"]):
        done = shell.run("answer", wait, *words)
        assert done.code == 2
        assert done.err.splitlines()[1] == f"hint: torpor inbox {wait}"
    assert shell.run("answer", wait, "--happened", "re_1").code == 2
    assert shell.run("approve", wait, "--yes").code == 2
    settled = shell.run("answer", wait, "--happened", '"re_1"', "--by", "ada").out
    assert settled == f"{wait} settled: it happened, by ada\nnext: torpor show {runs['sends torn']}\n"
    assert shell.run("worker", "shop.py", "--until-idle").code == 0
    assert shell.ok("show", runs["sends torn"])["effects"][0]["outcome"] == "done"
    assert shell.ok("inbox")["items"][-1]["what"] == "Send re_1?"


def test_signals(shell: Shell, runs: dict[str, str]) -> None:
    """A value wakes the run; a repeated key is one signal."""
    run = runs["hears go"]
    assert shell.ok("signal", run, "go", '{"eur": 40}', "--key", "p1") == {"run": run, "signal": "go", "kept": True}
    assert shell.ok("signal", run, "go", '{"eur": 41}', "--key", "p1")["kept"] is False
    assert shell.run("worker", "shop.py", "--until-idle").code == 0
    assert shell.ok("show", run)["result"] == {"eur": 40}


def test_approve_on_a_terminal(shell: Shell, runs: dict[str, str], terminal: Callable[..., Terminal]) -> None:
    """Everything is shown before it asks; anything but yes leaves it open; yes is bound to what was shown."""
    wait = wait_of(runs["sends a1"], shell)
    first = terminal("approve", wait)
    shown = first.until("approve Send re_a1? [y/N] ")
    assert '"text": "Dear Ana,\\nit is on its way."' in shown
    first.type("\n")
    code, rest = first.end()
    assert code == 1
    assert "it still waits" in rest
    second = terminal("approve", wait, "--by", "ada")
    second.until("[y/N] ")
    second.type("y\n")
    code, rest = second.end()
    assert (code, f"{wait} approved, by ada" in rest) == (0, True)


def test_where_when_and_until(shell: Shell) -> None:
    """A line, a tag and a deadline are said at the start and seen in the list; what makes no sense starts nothing."""
    known = ("start", "double", "4", "--app", "shop.py")
    first = shell.ok(*known, "--line", "ada", "--deadline", "2h")["run"]
    second = shell.ok("start", "double", "4", "--line", "ada", "--tag", "gpu", "--priority", "-3")["run"]
    lines = {line["run"]: line for line in shell.ok("ps", "--all")["runs"]}
    assert lines[second]["reason"] == "behind 1 other for ada"
    assert lines[first]["deadline_at"] is not None
    wrong = {
        "--deadline soon": "--deadline soon is no time",
        "--deadline 2000-01-01T00:00": "the deadline is not after the run's start",
        "--priority 99999": "priority 99999 is not between",
    }
    for words, said in wrong.items():
        done = shell.run("start", "double", "4", *words.split())
        assert (done.code, done.out) == (2, ""), words
        assert done.err.startswith(f"error: {said}"), done.err
    assert len(shell.ok("ps", "--all")["runs"]) == 2
    assert shell.run("cancel", second, "--reason", "too late").code == 0
    done = shell.run("worker", "shop.py", "--only-tags")
    assert (done.code, done.err.splitlines()[0]) == (2, "error: --only-tags without --tag would take nothing")
    done = shell.run("worker", "shop.py", "--program", "nothing", "--until-idle")
    assert (done.code, done.err.splitlines()[0].partition(" in the app")[0]) == (2, 'error: no program named "nothing"')


def test_interrupting(shell: Shell, runs: dict[str, str]) -> None:
    """It is a signal without a name; said twice under one key it is one."""
    run = shell.ok("start", "hears")["run"]
    assert runs
    words = ("signal", run, "--interrupt", "--reason", "wait", "--key", "k")
    assert shell.run(*words).out == f"{run} is interrupted; what it was doing ends\nnext: torpor show {run}\n"
    assert shell.ok(*words) == {"run": run, "interrupted": False}
    for wrong in (("signal", run), ("signal", run, "go", "--reason", "x"), ("signal", run, "go", "--interrupt")):
        assert shell.run(*wrong).code == 2, wrong
