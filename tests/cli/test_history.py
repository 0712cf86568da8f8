"""fork, rewind, retry, prune on the command line: listed first, asked, refused with the command that works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.shell import Shell, Terminal

pytestmark = pytest.mark.slow


def test_a_fork_of_an_ended_run(shell: Shell, runs: dict[str, str]) -> None:
    """Refused without a checkpoint, with the command that works; that command works; both know of each other."""
    run = runs["double 4"]
    done = shell.run("fork", run)
    assert done.code == 4
    hint = f"hint: torpor fork {run} --at 0   (its last one)"
    assert done.err.splitlines() == [f"error: {run} is completed: say from which checkpoint a copy of it goes on", hint]
    made = shell.run(*hint.split()[2:6])
    copy = made.out.split()[0]
    assert made.out == f"{copy} goes on from checkpoint 0 of {run}, turn 1\nnext: torpor show {copy}\n"
    assert f"  forked   from {run} at checkpoint 0: fork of {run} at checkpoint 0\n" in shell.run("show", copy).out
    assert f"  forks    {copy}\n" in shell.run("show", run).out
    other = shell.ok("fork", run, "--at", "0", "--input", "5", "--title", "five")
    assert shell.ok("show", other["run"])["state"] == 5
    assert other["forked_from"]["run"] == run


def test_what_cannot_be_undone_is_listed_first(
    shell: Shell, runs: dict[str, str], terminal: Callable[..., Terminal]
) -> None:
    """Nothing happens before a yes; where nobody can be asked the command with --yes is the hint."""
    run = runs["sends torn"]
    head = shell.ok("show", run)["head"]
    done = shell.run("rewind", run, "--at", "0")
    assert done.code == 2
    assert '  stays    refund#1 "torn"   turn 1, once, unknown' in done.err
    assert "  ends     the wait for did refund#1 happen?" in done.err
    assert "error: 1 cannot be undone (refund#1); nothing was changed" in done.err
    assert shell.run("rewind", run, "--at", "0", "--json").err.startswith("{")
    assert done.err.splitlines()[-1] == f"hint: torpor rewind {run} --at 0 --yes"
    asked = terminal("rewind", run, "--at", "0")
    asked.until("1 cannot be undone. rewind [y/N] ")
    asked.type("n\r")
    assert asked.end()[0] == 1
    assert shell.ok("show", run)["head"] == head
    said = shell.run("rewind", run, "--at", "0", "--yes", "--by", "ana").out
    assert said.startswith(f"{run} goes on from checkpoint 0 as turn 2, branch 1\n  stays    refund#1")
    assert f"torpor rewind {run} --at 0   brings back checkpoint 0" in said
    shown = shell.ok("show", run)
    assert (shown["head"], shown["line"]["turn"], shown["history"]["branch"]) == (head + 2, 2, 1)
    assert [line["what"] for line in shown["lines"]][-2] == "rewound to checkpoint 0 by ana"


def test_a_retry(shell: Shell, runs: dict[str, str]) -> None:
    """A failed run is ready again; anything else says what it is."""
    run = runs["broken 0"]
    assert shell.run("retry", run, "--by", "ana").out == (
        f"{run} starts again at checkpoint 0, 0 recorded results are used\nnext: torpor show {run}\n"
    )
    assert shell.ok("show", run)["line"]["state"] == "ready"
    again = shell.run("retry", run)
    assert (again.code, again.err.splitlines()[0]) == (4, f"error: {run} is ready: only a failed run is retried")
    ended = shell.run("retry", runs["double 4"])
    assert ended.err.splitlines()[1] == f"hint: torpor fork {runs['double 4']} --at 0   goes on in a copy"


def test_a_prune(shell: Shell, runs: dict[str, str]) -> None:
    """A dry run counts, a real one removes what ended, and only of the program that was named."""
    would = shell.ok("prune", "--older-than", "0s", "--dry-run")
    assert (would["runs"], would["dry_run"]) == (2, True)
    assert would["bytes"] > 0
    assert shell.ok("show", runs["double 4"])
    said = shell.run("prune", "--older-than", "0s", "--program", "double").out
    assert said == "gone: 1 run that ended, 1 entry\n"
    assert shell.run("show", runs["double 4"]).code == 3
    assert shell.ok("show", runs["broken 0"])
    assert shell.run("prune").out == "gone: 0 runs that ended, 0 entries\n"


def test_a_prune_of_one_layer(shell: Shell, runs: dict[str, str]) -> None:
    """Only that layer goes, whatever programs say; a dry run names the command that does it; it is said by whom."""
    entries = shell.ok("show", runs["sends a1"])["head"]
    would = shell.run("prune", "--older-than", "0s", "--layer", "runs", "--dry-run").out
    assert would.splitlines()[-1] == "next: torpor prune --older-than 0s --layer runs"
    assert would.startswith("would go: 2 runs that ended, 2 entries, ")
    assert shell.run("prune", "--older-than", "0s", "--layer", "journal").out == "gone: 0 runs that ended, 0 entries\n"
    assert shell.ok("show", runs["sends a1"])["head"] == entries
    assert shell.run("prune", "--layer", "stream").out == "gone: 0 runs that ended, 0 entries\n"
    assert shell.ok("prune", "--older-than", "0s", "--layer", "checkpoints")["runs"] == 0
    assert shell.ok("show", runs["double 4"])


@pytest.mark.parametrize(
    ("words", "code", "error", "hint"),
    [
        (["prune", "--older-than", "soon"], 2, "--older-than soon is no duration", "30d, 12h"),
        (["prune", "--layer", "leaves"], 2, "there is no layer 'leaves'", "runs, journal, checkpoints, stream, slots"),
        (["prune", "--program", "nobody"], 3, 'no program named "nobody"', "torpor prune --dry-run"),
        (["fork", "double-0000", "--at", "1"], 3, "there is no run double-0000", "torpor ps lists them"),
        (["fork", "RUN", "--at", "7"], 3, "has no entry 7", "--at 0"),
        (["rewind", "RUN", "--at", "0", "--yes"], 4, "a run that has ended is not rewound", "torpor fork RUN --at 0"),
        (["fork", "RUN", "--at", "0", "--input", "{"], 2, "--input is not JSON", ""),
    ],
)
def test_bad_input(shell: Shell, runs: dict[str, str], words: list[str], code: int, error: str, hint: str) -> None:
    """Each says what is wrong with which value, and what would work."""
    run = runs["double 4"]
    done = shell.run(*[run if word == "RUN" else word for word in words])
    assert done.code == code
    assert error in done.err.splitlines()[0]
    assert hint.replace("RUN", run) in done.err.splitlines()[1]
