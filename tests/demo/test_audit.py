"""What is found in a file, and how it is said."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from torpor.demo.audit import Finding, is_binary, measured, parsed, report, spoken, together

MARK = "TO" + "DO"


def whats(finding: Finding) -> dict[str, int]:
    """Return how often each thing was found."""
    return finding.counts


def test_text_is_measured() -> None:
    """Long lines, blanks at line ends, marks, mixed line ends and a missing last one are found with their lines."""
    content = f"one \r\ntwo {MARK}: later\n{'x' * 121}".encode()
    finding = measured("a.txt", content)
    assert (finding.size, finding.lines) == (len(content), 3)
    assert finding.first == [
        (1, "mixed line ends", "\\n \\r\\n"),
        (3, "no line end at the end", ""),
        (1, "blanks at the end", ""),
        (2, "mark left behind", MARK),
        (3, "long line", "121 letters"),
    ]


@pytest.mark.parametrize("content", [b"", b"one\n", b"one\r\ntwo\r\n"])
def test_clean_text_has_no_remarks(content: bytes) -> None:
    """An empty file and tidy ones are left alone, whichever line end they keep to."""
    assert measured("a", content).total == 0


def test_text_that_is_no_utf8_says_so() -> None:
    """Latin-1 is found; a replacement sign that was written on purpose is not."""
    assert whats(measured("a", "é\n".encode("latin-1"))) == {"not UTF-8": 1}
    assert whats(measured("a", "\ufffd\n".encode())) == {}


def test_python_is_parsed() -> None:
    """Missing docstrings, broad excepts, long functions, many parameters and mutable defaults are found."""
    body = "\n".join("    x = 1" for _ in range(70))
    source = (
        "class A:\n    def _b(self): pass\n"
        "def f(a, b, c, d, e, g, h, i, j=[]):\n    try:\n        pass\n    except (ValueError, Exception):\n        pass\n"
        f"def g():\n    '''Long.'''\n{body}\n"
    )
    found = {(what, which) for _, what, which in parsed("a.py", source.encode()).first}
    assert found == {
        ("no docstring", "the file"),
        ("no docstring", "A"),
        ("no docstring", "f"),
        ("many parameters", "f, 9"),
        ("mutable default", "f"),
        ("broad except", "except Exception"),
        ("long function", "g, 72 lines"),
    }


@pytest.mark.parametrize("content", [b"def f(:\n", b"\x00", b"(" * 5000, "é".encode("latin-1")])
def test_what_is_no_python_is_a_finding(content: bytes) -> None:
    """Source that cannot be parsed stops nothing."""
    assert whats(parsed("a.py", content)) == {"is not Python": 1}


def test_the_compiler_is_silent() -> None:
    """A wrong escape in somebody's string is no warning of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parsed("a.py", b'"""Text."""\nx = "\\d"\n').total == 0


def test_only_some_remarks_are_kept() -> None:
    """All are counted, however many; the journal gets a few."""
    finding = measured("a", b"x \n" * 5000)
    assert (finding.counts["blanks at the end"], len(finding.first)) == (5000, 8)


def test_two_looks_are_one_finding() -> None:
    """Counts are added, remarks are in the order of their lines, and what either could not do is said."""
    both = together(
        Finding("a", 10, 2, {"x": 1}, [(2, "x", "")]), Finding("a", 0, 0, {"x": 1, "y": 1}, [(1, "y", "")], "gone")
    )
    assert both == Finding("a", 10, 2, {"x": 2, "y": 1}, [(1, "y", ""), (2, "x", "")], "gone")


def test_binary_is_told_from_text() -> None:
    """A zero byte, or many control characters; an escape sequence in a log is text."""
    assert is_binary(b"\x7fELF\0")
    assert is_binary(bytes(range(1, 9)) * 4)
    assert not is_binary(b"")
    assert not is_binary(b"\x1b[31mred\x1b[0m " * 9)


def test_any_name_can_be_shown() -> None:
    """A line feed, an escape and bytes that are no UTF-8 are written as escapes; the rest is as it is."""
    assert spoken(Path(os.fsdecode(b"a\n\x1b\xff\xc3\xa9"))) == "a\\n\\x1b\\xffé"


def test_the_report_survives_names() -> None:
    """Backticks do not end a name, what could not be read is listed, and the rest is counted."""
    findings = [Finding("a`b", 3, 1, {"long line": 9}, [(1, "long line", "121 letters")]), Finding("c", trouble="gone")]
    text = report("x", findings)
    assert "2 files, 1 line, 3 bytes, 9 remarks." in text
    assert "## `` a`b ``" in text
    assert "- `c`: gone" in text
    assert "- and 8 more" in text
