"""The screen of the agent's demo: it fits a narrow terminal, and says how far it is where nothing can be drawn again."""

from __future__ import annotations

import re

import pytest

from torpor import clock
from torpor.demo.agent.proof import Proof
from torpor.demo.agent.screen import Screen
from torpor.demo.agent.story import show_patch
from torpor.testing.showing import Wait

LONG = "+" + "a line that is longer than any terminal of this test is wide, "
PATCH = f"@@ -1 +1 @@\n-short\n{LONG}and it ends here"


@pytest.fixture
def on_terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A terminal of so many columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return int(request.param)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that stand there."""
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


@pytest.mark.parametrize("on_terminal", [20, 40, 63, 64, 80], indirect=True)
def test_the_proof_fits(on_terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Every row with its number at the right, wherever there is room for a word beside it; nothing is cut."""
    rows = Proof(None).table()
    Screen().table([(what, much, "") for what, much, _ in rows])
    lines = shown(capsys)
    if on_terminal >= 40:
        assert [line for line in lines if len(line) > on_terminal] == []
    words = " ".join(line[12:] for line in lines).split()
    assert words == " ".join(f"{what} {much}" for what, much, _ in rows).split()
    if on_terminal == 80:
        assert len(lines) == len(rows)
        assert {len(line) for line in lines} == {80}


@pytest.mark.parametrize("on_terminal", [80], indirect=True)
def test_what_is_quoted_is_broken_at_spaces(on_terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one is near; a word that is longer than the half of a line is broken anywhere."""
    long = "so that ten items in pages of three made three pages of them instead of all four"
    Screen().quoted("message", f"{long}\n{'x' * 100}", {})
    lines = shown(capsys)
    end = long.index(" instead")
    assert lines == [
        f"  message   {long[:end]}",
        f"{' ' * 14}{long[end:]}",
        f"{' ' * 12}{'x' * 66}",
        f"{' ' * 14}{'x' * 34}",
    ]
    assert max(map(len, lines)) <= on_terminal


@pytest.mark.parametrize("on_terminal", [50], indirect=True)
def test_what_is_consented_to_is_shown_whole(on_terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The patch to its last letter, and the message as git will have it: on lines of its own, not as Python spells it."""
    message = "Count the last page\n\nIt was lost."
    show_patch(
        Screen(), Wait("w-1", 1, "approval", "commit?", None, answered=False, show={"message": message, "patch": PATCH})
    )
    lines = shown(capsys)
    assert max(len(line) for line in lines) <= on_terminal
    whole = "".join(line[14:] for line in lines)
    assert f"{LONG}and it ends here" in whole
    assert lines[0] == "  message   Count the last page"
    assert lines[2].strip() == "It was lost."


def test_how_far_it_is_is_said_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no terminal: a line on standard error every ten seconds; nothing with --json."""
    now = 0.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    piped, silent = Screen(), Screen(silent=True)
    for n in range(30):
        now = float(n)
        piped.progress(f"{n} points")
        silent.progress(f"{n} points")
    told = capsys.readouterr()
    assert (told.out, told.err.split("\n")) == ("", ["10 points", "20 points", ""])
