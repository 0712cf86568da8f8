"""ps, show, inbox, doctor: for people and for programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.shell import BROKEN_AT
from torpor.cli.screen import Column, Screen, cells, clean
from torpor.cli.strip import share
from torpor.engine.queries.life import Stretch

if TYPE_CHECKING:
    from tests.cli.shell import Shell

pytestmark = pytest.mark.slow

RUN_KEYS = {
    *("run", "program", "version", "state", "shown", "reason", "since_at", "next_at", "next_is", "created_at", "turn"),
    *("stretches", "takeovers", "worker", "cancelling", "waits", "hint"),
    *("deadline_at", "parent"),
}
UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def wait_of(run: str, shell: Shell) -> str:
    """Return the id of a run's open wait for a person."""
    items = shell.ok("inbox")["items"]
    return str(next(item["wait"] for item in items if item["run"] == run))


def test_ps_for_people(shell: Shell, runs: dict[str, str]) -> None:
    """Glyph, id, state with its reason; what needs a person stands first, and `next:` can be pasted."""
    lines = shell.run("ps").out.splitlines()
    assert lines[0].split() == ["RUN", "PROGRAM", "STATE", "SINCE", "NEXT"]
    by_run = {line.split()[1]: line for line in lines[1:-1]}
    assert set(by_run) == set(runs.values())
    assert by_run[runs["sends torn"]].startswith("? ")
    assert "needs you: settle refund#1" in by_run[runs["sends torn"]]
    assert "needs you: approve Send re_a1?" in by_run[runs["sends a1"]]
    assert "asleep: message go" in by_run[runs["hears go"]]
    assert by_run[runs["hears go"]].endswith("no date")
    assert by_run[runs["naps 86400.0"]].startswith("◡ ")
    assert by_run[runs["broken 0"]].startswith("✕ ")
    assert f"failed: ZeroDivisionError: division by zero ({BROKEN_AT})" in by_run[runs["broken 0"]]
    assert by_run[runs["double 4"]].startswith("✓ ")
    assert {line.split()[1] for line in lines[1:3]} == {runs["sends torn"], runs["sends a1"]}
    assert lines[-1] == "next: torpor inbox"
    assert "\x1b" not in "".join(lines)


def test_ps_for_programs(shell: Shell, runs: dict[str, str]) -> None:
    """One document, moments in UTC, nothing on standard error; filters narrow it."""
    fleet = shell.ok("ps")
    assert set(fleet) == {"at", "runs", "counts", "asleep_more", "counted_to"}
    assert all(set(run) == RUN_KEYS for run in fleet["runs"])
    assert all(UTC.fullmatch(moment) for moment in (fleet["at"], fleet["runs"][0]["since_at"]))
    assert fleet["counts"] == {"ready": 0, "running": 0, "waiting": 4, "completed": 1, "failed": 1, "cancelled": 0}
    failed = shell.ok("ps", "--state", "failed", "--program", "broken")
    assert ([run["run"] for run in failed["runs"]], failed["more"]) == ([runs["broken 0"]], False)
    page = shell.ok("ps", "--all", "--limit", "2")
    assert page["more"]
    rest = shell.ok("ps", "--all", "--before", page["runs"][-1]["run"])
    assert len(rest["runs"]) == len(runs) - 2


def test_an_empty_store(shell: Shell) -> None:
    """Nothing there is said as such, with what to do; not a table without rows."""
    assert shell.run("worker", "shop.py", "--until-idle").code == 0
    assert shell.run("ps").out.splitlines() == ["No run here yet.", "", "next: torpor start PROGRAM INPUT"]
    assert shell.run("inbox").out == "Nothing needs you.\n"
    assert shell.run("ps", "--all").out == "No such run.\n"
    assert shell.ok("ps")["runs"] == []


def test_show_for_people(shell: Shell, runs: dict[str, str]) -> None:
    """State and reason, the strip, the waits with their ids, the ledger, the story."""
    out = shell.run("show", runs["sends torn"]).out
    assert out.startswith(f"{runs['sends torn']}   flow sends version 1   shop:sends\n? needs you: settle refund#1\n")
    assert "1 unknown" in out
    assert re.search(r"^  awake .+ of .+ \(.+ %\)   1 stretch   0 takeovers$", out, re.MULTILINE)
    assert re.search(r'^\? refund#1 +1 +once +unknown +[0-9a-f]{32} +"torn"$', out, re.MULTILINE)
    assert re.search(r'^\? +1  \d\d:\d\d:\d\d  refund#1 "torn" +unknown', out, re.MULTILINE)
    assert out.splitlines()[-1].startswith("next: torpor inbox w-")
    done = shell.run("show", runs["double 4"].rpartition("-")[2].lower()).out
    assert "  result   8\n" in done
    assert "completed" in done
    hears = shell.run("show", runs["hears go"]).out
    assert hears.splitlines()[-1] == f"next: torpor signal {runs['hears go']} go VALUE"


def test_show_for_programs(shell: Shell, runs: dict[str, str]) -> None:
    """Everything about a run in one document, the values as people see them."""
    shown = shell.ok("show", runs["sends torn"])
    assert set(shown) == {
        *("at", "line", "source", "head", "entries_before", "effects", "lines", "life", "state", "result"),
        *("heard", "unread"),
        *("family", "history", "too_late", "view", "parts", "parts_pruned"),
    }
    assert set(shown["line"]) == RUN_KEYS
    assert shown["effects"][0]["outcome"] == "unknown"
    assert shown["state"] == "torn"
    assert shell.ok("show", runs["double 4"])["result"] == 8
    assert shown["heard"] == []


def test_the_inbox(shell: Shell, runs: dict[str, str]) -> None:
    """Every wait for a person with its id and the commands that decide it; one of them in full, nothing cut."""
    out = shell.run("inbox").out
    assert out.startswith("2 runs cannot go on without a person. The oldest wait is ")
    assert re.search(
        rf'^\? w-\S+ +settle +refund#1 "torn" \(it raised OSError: connection reset\) +{runs["sends torn"]} ',
        out,
        re.MULTILINE,
    )
    about = r'Send re_a1\? order=a1 text="Dear Ana,\\nit is on its \.\.\."'
    assert re.search(rf"^◆ w-\S+ +approve +{about} +{runs['sends a1']} ", out, re.MULTILINE)
    wait = wait_of(runs["sends a1"], shell)
    full = shell.run("inbox", wait).out
    assert "           it is on its way." not in full
    assert '"text": "Dear Ana,\\nit is on its way."' in full
    assert full.endswith(f'next: torpor approve {wait}\n      torpor deny {wait} "reason"\n')
    settle = shell.run("inbox", wait_of(runs["sends torn"], shell)).out
    assert "why      it raised OSError: connection reset" in settle
    assert "--again             # it may happen twice" in settle
    item = shell.ok("inbox", wait)
    fields = {"wait", "asks", "what", "run", "opened_at", "expires_at", "digest", "content", "proposed", "parent"}
    assert set(item) == fields
    assert item["content"]["digest"] == item["digest"]


def test_the_doctor(shell: Shell, runs: dict[str, str]) -> None:
    """A line a subject, worst first, each with its hint, and whether it is safe to stop."""
    done = shell.run("doctor")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("warn  ")
    assert lines[1].strip().startswith("hint: torpor ")
    assert lines[-2:] == ["safe to stop now: yes, no effect is in flight", "3 warnings, 0 errors"]
    assert any(line.startswith("ok    store") and "checked, whole" in line for line in lines)
    found = shell.ok("doctor")
    assert found["safe_to_stop"] is True
    assert (found["errors"], found["warnings"]) == (0, 3)
    assert found["counts"]["failed"] == 1
    assert runs["broken 0"] in next(line["text"] for line in found["lines"] if line["subject"] == "runs")
    assert shell.run("doctor", "--reset-clock").out == "0 stored times brought back to this machine's clock\n"
    assert shell.ok("doctor", "--reset-clock") == {"changed": 0, "late": [], "late_seconds": 0}


NEWER = """from torpor import App, Context

app = App()


@app.flow(version=2)
async def hears(ctx: Context, name: str) -> object:
    return await ctx.receive(name)
"""


def test_a_version_that_nobody_serves(shell: Shell, runs: dict[str, str]) -> None:
    """ps, show and the doctor say which version a run is, what is served instead, and the ways out."""
    run = runs["hears go"]
    (shell.folder / "shop.py").write_text(NEWER, "utf-8")
    said = f"{run} is version 1; w2 serves hears version 2"
    with shell.going("worker", "shop.py", "--name", "w2") as worker:
        assert worker.stderr is not None
        assert any("works on" in line for line in worker.stderr)
        line = next(line for line in shell.ok("ps")["runs"] if line["run"] == run)
        assert line["reason"] == f"message go, but {said}"
        assert shell.run("signal", run, "go", "1").code == 0
        shown = shell.run("show", run).out
        assert f"ready: {said}\n" in shown
        hint = 'hint: app.upcast(1, fn, flow="hears") in the new code, or a worker with the code of version 1'
        assert f"  {hint}\n" in shown
        found = shell.run("doctor").out
        assert re.search(rf"^warn +versions +{re.escape(said)}\n +{re.escape(hint)}$", found, re.MULTILINE)


def test_an_input_that_does_not_fit(shell: Shell) -> None:
    """Started without --app it becomes a trouble: its line says what is wrong, and that only a new run helps."""
    assert shell.run("worker", "shop.py", "--until-idle").code == 0
    run = shell.ok("start", "double", '"x"')["run"]
    assert shell.run("worker", "shop.py", "--until-idle").code == 0
    out = shell.run("inbox", COLUMNS="300").out
    assert "the input does not fit int: Input should be a valid integer" in out
    assert ", got 'x'" in out
    assert f"torpor cancel {run} " in out
    assert "torpor start double INPUT" in out


def test_shares_have_no_exponent() -> None:
    """A part of a hundred is read at a glance, however large or small."""
    second = 1_000_000
    whole = [Stretch("awake", 0, 16_000)]
    assert share(whole) == "awake or ready 16ms of 16ms (100 %)"
    half = [Stretch("awake", 0, second), Stretch("asleep", second, 2 * second)]
    assert share(half).endswith(" (50 %)")
    little = [Stretch("awake", 0, second), Stretch("asleep", second, 10**6 * second)]
    assert share(little).endswith(" (under 0.01 %)")


@pytest.mark.parametrize("width", [50, 80])
def test_ids_are_never_cut(shell: Shell, runs: dict[str, str], width: int) -> None:
    """On a narrow terminal other columns give way; no line is longer than the terminal."""
    for command in ("ps", "inbox"):
        lines = shell.run(command, COLUMNS=str(width)).out.splitlines()
        table = [line for line in lines if line[:1] in "?◆◡✕✓" and line[:1]]
        assert table
        assert all(cells(line) <= width for line in table), lines
        assert all(run in "\n".join(lines) for run in (runs["sends torn"], runs["sends a1"]))


def test_colour_and_glyphs(shell: Shell, runs: dict[str, str]) -> None:
    """FORCE_COLOR colours, NO_COLOR beats it, and where the output is not UTF-8 every letter is ASCII."""
    assert runs
    assert "\x1b[1;35m?\x1b[0m" in shell.run("ps", FORCE_COLOR="1").out
    assert "\x1b" not in shell.run("ps", FORCE_COLOR="1", NO_COLOR="1").out
    for more in ({"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}):
        out = shell.run("ps", **more).out
        assert out.isascii()
        assert {line[0] for line in out.splitlines()[1:-1]} == {"?", "!", "~", "x", "+"}


def test_stored_text_cannot_drive_the_terminal() -> None:
    """Control characters of a value are written out, wide letters count two cells."""
    assert clean("a\x1b[31mb\n") == r"a\x1b[31mb\n"
    assert cells("日本") == 4
    screen = Screen(open("/dev/null", "w", encoding="utf-8"), width=30, colour=False, unicode=True)  # noqa: PTH123, SIM115
    table = screen.table([Column("ID", fixed=True), Column("WHAT")], [["w-1", "日本語のとても長い文章です"]], ["ready"])
    assert cells(table[1]) <= 30
    assert table[1].startswith("○ w-1  日本")
    screen.out.close()
