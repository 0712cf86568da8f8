"""The strip and the screen: height before colour, plain where it must be."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING

import pytest

from torpor.demo.screen import Drawn, Silent
from torpor.demo.strip import Cell, Strip

if TYPE_CHECKING:
    from collections.abc import Sequence


def text(cells: Sequence[Cell], *, ascii_only: bool = False) -> str:
    """Return cells as they are drawn."""
    return "".join(cell.glyph(ascii_only=ascii_only) for cell in cells)


def life() -> Strip:
    """Return the life of a run in which something happened."""
    strip = Strip()
    for at, cell in (
        (0.0, Cell.AWAKE),
        (1.0, Cell.STALLED),
        (3.0, Cell.TAKEOVER),
        (3.0, Cell.UNKNOWN),
        (3.01, Cell.AWAKE),
        (3.5, Cell.AWAKE),
        (4.0, Cell.PERSON),
        (4.1, Cell.DONE),
    ):
        strip.paint(at, cell)
    return strip


def test_a_stretch_is_as_long_as_it_took_and_never_shorter_than_a_cell() -> None:
    """What took no time is what one looks for."""
    assert text(life().cells(60)) == "████▒▒▒▒▒▒▒▒⌇?████◆✓"
    assert text(life().cells(60), ascii_only=True) == "####::::::::/?####!+"


@pytest.mark.parametrize("width", range(1, 25))
def test_a_strip_fits(width: int) -> None:
    """It is never wider than there is room, and keeps its end."""
    cells = life().cells(width)
    assert len(cells) <= width
    assert cells[-1] is Cell.DONE


def test_an_empty_strip() -> None:
    """Before the run was started there is nothing to draw."""
    assert Strip().cells(10) == []


def test_no_two_cells_look_alike() -> None:
    """A state is never told by its colour alone."""
    for ascii_only in (False, True):
        assert len({cell.glyph(ascii_only=ascii_only) for cell in Cell}) == len(Cell)


def played(screen: Drawn) -> None:
    """Let a screen show a short demo."""
    screen.open("torpor demo: audits 1 file", ["1 binary file skipped"], "sqlite:///x.db")
    screen.crew([])
    screen.run("audit-7Q3D", 1, 1, Cell.AWAKE)
    screen.event("? publish#1 of [bold]é.py is unknown", "bold magenta")
    screen.run("audit-7Q3D", 1, 1, Cell.DONE)
    screen.proof([("service counted 1", "green"), ("kills 1", "")])
    screen.close(["done in 1 s."])


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line once, no colour, no cursor movement; what looks like markup in a file's name is a name."""
    played(Drawn())
    lines = capsys.readouterr().out.splitlines()
    assert "\x1b" not in "".join(lines)
    assert [lines[0], *lines[1:3], *lines[4:]] == [
        "torpor demo: audits 1 file",
        "  note      1 binary file skipped",
        "  store     sqlite:///x.db",
        "  run       audit-7Q3D █✓  1/1 files  completed",
        "  proof     service counted 1",
        "            kills 1",
        "done in 1 s.",
    ]
    assert lines[3].endswith("? publish#1 of [bold]é.py is unknown")


def test_ascii_where_the_output_is_not_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Glyphs and names are spelled so that they can be written."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    played(Drawn())
    said = written.getvalue().decode("ascii")
    assert "audit-7Q3D #+  1/1 files" in said
    assert "[bold]\\xe9.py" in said


class Terminal(io.TextIOWrapper):
    """An output that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_a_live_block_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn from the first moment, again with each event, and its last state stays."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Terminal(written, encoding="utf-8", write_through=True))
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    played(Drawn())
    said = written.getvalue().decode()
    frames = said.split("torpor demo: audits 1 file")
    assert len(frames) > 5
    assert "not started" in frames[1]
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frames[-1]).replace("\r", "")
    assert "run       audit-7Q3D █✓  1/1 files  completed\n" in plain
    assert plain.endswith("            kills 1\ndone in 1 s.\n")
    assert "\x1b[1;35m" in frames[-1], "an unknown effect is bold magenta"
    monkeypatch.setenv("NO_COLOR", "1")
    written.seek(0)
    written.truncate()
    played(Drawn())
    assert "\x1b[1;35m" not in written.getvalue().decode()


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    """With `--json` nothing but the object is printed."""
    screen = Silent()
    screen.open("x", ["y"], "z")
    screen.crew([])
    screen.run("x", 0, 1, Cell.AWAKE)
    screen.event("x")
    screen.proof([("x", "")])
    screen.close(["x"])
    assert capsys.readouterr() == ("", "")
