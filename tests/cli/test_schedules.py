"""`torpor schedules`: made, listed, read, paused, run and removed; and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.shell import Shell

pytestmark = pytest.mark.slow


def made(shell: Shell, *more: str) -> str:
    """Make a schedule, and return what was said."""
    words = ("schedules", "tidy", "--program", "double", "--input", "4", *(more or ("--cron", "0 9 * * 1-5")))
    done = shell.run(*words, "--zone", "Europe/Berlin")
    assert (done.code, done.err) == (0, "")
    return done.out


def test_a_schedule_is_made_once(shell: Shell, runs: dict[str, str]) -> None:
    """Again: unchanged; otherwise: what changed."""
    assert runs
    assert made(shell) == "tidy created\nnext: torpor schedules tidy\n"
    assert made(shell).splitlines()[0] == "tidy unchanged"
    assert made(shell, "--cron", "0 10 * * 1-5", "--missed", "skip").splitlines()[0] == "tidy changed: cron, missed"


def test_what_people_and_programs_read(shell: Shell, runs: dict[str, str]) -> None:
    """A sentence, the next slots, the fates of the last, and the commands that go on from there."""
    assert runs
    assert "No schedule." in shell.run("schedules").out
    made(shell)
    title, row, after = shell.run("schedules").out.splitlines()
    assert title.split() == ["SCHEDULE", "WHEN", "NEXT", "LAST", "SLOTS"]
    assert row.startswith("  tidy      weekdays at 09:00 Europe/Berlin  ")
    assert "09:00:00 +0" in row
    assert after == "next: torpor schedules tidy"
    started = shell.ok("schedules", "tidy", "--run", "--by", "ada")
    assert shell.run("schedules", "tidy", "--pause", "--by", "ada").out.splitlines()[0] == "tidy paused"
    assert shell.run("schedules", "tidy", "--pause").out.splitlines()[0] == "tidy was paused already"
    shown = shell.run("schedules", "tidy").out.splitlines()
    assert shown[:3] == [
        "tidy  weekdays at 09:00 Europe/Berlin  paused by ada",
        "starts double; missed slots: latest",
        "",
    ]
    assert shown[3] == "#"
    assert shown[4].endswith(f"fired      {started['run']}  extra  run by ada")
    assert shown[-2:] == ["next: torpor schedules tidy --resume", "      torpor schedules tidy --run"]
    document = shell.ok("schedules")["schedules"][0]
    assert (document["state"], document["strip"], document["slots"][0]["run"]) == ("paused", "#", started["run"])
    assert shell.ok("schedules", "tidy", "--resume") == {"schedule": "tidy", "did": "goes on", "changed": True}
    assert shell.ok("schedules", "tidy")["next_at"].endswith("00:00.000000Z")
    assert shell.run("schedules", "tidy", "--remove").out.startswith("tidy removed")
    assert shell.run("schedules", "tidy").code == 3


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["tidy", "--program", "double", "--cron", "61 * * * *"], 2, 'its minute "61" makes no sense'),
        (["tidy", "--program", "double", "--cron", "0 9 30 2 *"], 2, 'its day-of-month "30" is in no month'),
        (["tidy", "--program", "double", "--cron", "0 9 * * *", "--zone", "Mars"], 2, "there is no time zone 'Mars'"),
        (["tidy", "--program", "nothing", "--cron", "0 9 * * *"], 2, 'no program named "nothing"'),
        (["tidy", "--program", "double", "--every", "-5"], 2, "not negative"),
        (["tidy", "--program", "double", "--every", "60", "--missed", "never"], 2, "is no policy"),
        (["tidy", "--cron", "0 9 * * *"], 2, "whose runs does it start?"),
        (["--pause"], 2, "which schedule?"),
        (["tidy", "--pause", "--run"], 2, "one thing at a time: --pause, --run"),
        (["tidy", "--pause"], 3, 'there is no schedule "tidy" (there are: none)'),
    ],
)
def test_what_is_refused(shell: Shell, runs: dict[str, str], words: list[str], code: int, message: str) -> None:
    """With a line that says what is wrong, and nothing written."""
    assert runs
    done = shell.run("schedules", *words)
    assert (done.code, done.out) == (code, "")
    assert message in done.err.splitlines()[0]
    assert shell.ok("schedules") == {"schedules": []}
