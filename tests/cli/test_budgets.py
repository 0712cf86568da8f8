"""Budgets and rates on the command line: limits, the inbox's sentence, the three answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.shell import Shell

APP = '''"""An app that costs."""

from __future__ import annotations

from torpor import App, Context, hours

app = App()


@app.flow
async def costs(ctx: Context, dollars: int) -> str:
    async with ctx.budget.reserve(dollars) as held:
        await held.settle(dollars)
    return "paid"


@app.flow
async def waits(ctx: Context) -> None:
    await ctx.rate("mail", limit=1, per=hours(1))
'''


@pytest.fixture
def short(shell: Shell) -> tuple[str, str]:
    """Return a run that wants more than it may spend, and its wait."""
    (shell.folder / "money.py").write_text(APP, "utf-8")
    words = ("start", "costs", "7", "--app", "money.py", "--budget", "5", "--tenant-budget", "20")
    run = shell.ok(*words, "--program-budget", "6.50")["run"]
    assert shell.run("worker", "money.py", "--until-idle").code == 0
    (item,) = shell.ok("inbox")["items"]
    assert (item["asks"], item["what"]) == ("budget", "wants $2.00 more, used $0.00 of $5.00")
    return run, item["wait"]


def test_a_budget_is_raised(shell: Shell, short: tuple[str, str]) -> None:
    """The inbox says what to type; the first answer wins; the next budget above asks in its turn."""
    run, wait = short
    said = shell.run("inbox").out
    assert "budget  wants $2.00 more, used $0.00 of $5.00" in said
    assert f"torpor answer {wait} --raise 2.00" in said
    assert shell.run("ps").out.count("needs you: budget wants $2.00 more") == 1
    done = shell.run("answer", wait, "--raise", "2", "--by", "ada")
    assert done.out == f"{wait} settled: the limit is raised by $2.00, by ada\nnext: torpor show {run}\n"
    second = shell.run("answer", wait, "--once")
    assert second.code == 4
    assert second.err.startswith(f"error: ada raised the limit by $2.00 for {wait}") or "ada raised" in second.err
    assert shell.run("worker", "money.py", "--until-idle").code == 0
    (item,) = shell.ok("inbox")["items"]
    assert item["what"] == "wants $0.50 more, used $0.00 of $6.50 of program costs"
    assert shell.run("answer", item["wait"], "--once").code == 0
    assert shell.run("worker", "money.py", "--until-idle").code == 0
    shown = shell.run("show", run).out
    assert "completed" in shown
    assert "ada raised the limit by $2.00" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--raise", "-5"], "zero or more|more than nothing"),
        (["--raise", "0"], "more than nothing"),
        (["--raise", "five"], "no number"),
        (["--again"], "about a budget"),
        (["--happened", "1"], "about a budget"),
        (["--raise", "5", "--once"], "exactly one"),
    ],
)
def test_wrong_answers(shell: Shell, short: tuple[str, str], words: list[str], said: str) -> None:
    """Nothing is changed, and the wait is still open."""
    done = shell.run("answer", short[1], *words)
    assert done.code == 2
    assert any(part in done.err for part in said.split("|")), done.err
    assert len(shell.ok("inbox")["items"]) == 1


def test_a_budget_is_refused(shell: Shell, short: tuple[str, str]) -> None:
    """The flow fails with what was said."""
    run, wait = short
    assert shell.run("answer", wait, "--fail", "too dear").out.startswith(f"{wait} settled: no, by ")
    assert shell.run("worker", "money.py", "--until-idle").code == 0
    assert "too dear" in shell.run("show", run).out


def test_bad_limits_start_nothing(shell: Shell, short: tuple[str, str]) -> None:
    """Negative, nothing, no number."""
    for words in (["--budget", "-1"], ["--budget", "0"], ["--tenant-budget", "x"], ["--program-budget", "0"]):
        assert shell.run("start", "costs", "1", *words).code == 2, words
    assert [line["run"] for line in shell.ok("ps", "--all")["runs"]] == [short[0]]


def test_a_rate_is_a_reason_to_sleep(shell: Shell) -> None:
    """`ps` says which."""
    (shell.folder / "money.py").write_text(APP, "utf-8")
    for _ in range(2):
        shell.ok("start", "waits", "--app", "money.py")
    assert shell.run("worker", "money.py", "--until-idle").code == 0
    assert shell.run("ps").out.count("asleep: rate mail") == 1
