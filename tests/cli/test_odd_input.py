"""What nobody should type, typed all the same: a line and a hint, the exit code of a usage error, nothing lost."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from torpor.cli.documents import write

if TYPE_CHECKING:
    from tests.cli.shell import Shell

pytestmark = pytest.mark.slow
DEEP = "[" * 20_000 + "]" * 20_000
LONG = "1" * 5_000


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, ("start", "hears", DEEP)),
        (2, ("start", "hears", LONG)),
        (2, ("start", "hears", '"go"', "--at=+999999999999d")),
        (2, ("start", "hears", '"go"', "--deadline=999999999999d")),
        (2, ("start", "hears", '"go"', "--deadline=9999999d")),
        (2, ("prune", "--older-than", "999999999999d")),
        (2, ("approve", "w-7q3d-99999999999999999999", "--yes")),
        (2, ("answer", "RUN", DEEP)),
        (3, ("fork", "RUN", "--at", "99999999999999999999", "--yes")),
        (3, ("rewind", "RUN", "--at", "99999999999999999999", "--yes")),
        (0, ("tail", "RUN", "--after", "99999999999999999999")),
    ],
)
def test_beyond_all_bounds(shell: Shell, runs: dict[str, str], code: int, words: tuple[str, ...]) -> None:
    """Numbers, moments and depths that no store or Python has are usage errors or not found, and no defect."""
    done = shell.run(*(runs["hears go"] if word == "RUN" else word for word in words))
    assert done.code == code, done.err
    assert "defect" not in done.err
    assert (len(done.err.splitlines()) == 2) == (code > 0), done.err


@pytest.mark.parametrize("words", [("signal", "RUN", "a\x1b[31m", "1"), ("signal", "--event", "a\x1b[31m", "1")])
def test_names_do_not_drive_the_terminal(shell: Shell, runs: dict[str, str], words: tuple[str, ...]) -> None:
    """A name with an escape sequence in it is said back with the sequence written out."""
    done = shell.run(*(runs["hears go"] if word == "RUN" else word for word in words))
    assert (done.code, "\x1b" in done.out, "a\\x1b[31m" in done.out) == (0, False, True)


def test_errors_do_not_drive_the_terminal(shell: Shell, runs: dict[str, str]) -> None:
    """An error that quotes what was typed writes control characters out."""
    assert runs
    done = shell.run("ps", "--program", "a\x1b[31m")
    assert (done.code, "\x1b" in done.err, "a\\x1b[31m" in done.err) == (2, False, True)


def test_json_for_any_stream() -> None:
    """C1 controls, bidirectional marks and half pairs are escaped; a stream that is not UTF-8 gets ASCII."""
    value = {"a\x9b31m": "\u202eb\ud800 é"}
    utf8, latin = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "latin-1")
    for out in (utf8, latin):
        write(value, out)
        out.seek(0)
        text = out.read()
        assert json.loads(text) == value
        assert not {"\x9b", "\u202e", "\ud800"} & set(text)
