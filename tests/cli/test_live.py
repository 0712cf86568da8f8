"""What a run says, on a terminal and elsewhere: texts that grow, calls that end, what is taken back."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.emulator import Emulator
from torpor.cli.live import View
from torpor.cli.region import Beside, Region, Wrapped, wrapped
from torpor.cli.screen import Screen, cells
from torpor.client import Part
from torpor.core.stream import Kept

COLUMNS, ROWS = 40, 10
SECOND = 1_000_000


class Looked(io.StringIO):
    """A terminal that is looked at after each part."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self.shown = Emulator(COLUMNS, ROWS)

    def write(self, text: str) -> int:
        """Show what is written."""
        self.shown.feed(text)
        return super().write(text)


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of one size."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", str(ROWS))


class Looker:
    """Somebody who looks on: parts are numbered as they come."""

    def __init__(self, *, terminal: bool = True, colour: bool = False) -> None:
        """Look at nothing yet."""
        self.out = Looked()
        self.screen = Screen(self.out, width=COLUMNS if terminal else 10_000, colour=colour, unicode=True)
        self.region = Region(self.screen)
        self.view = View(self.screen, self.region if terminal else None)
        self.n = 0

    def hears(self, *bodies: Any, at: int = 0) -> int:
        """Take parts: texts, dicts, and lists of ranges that are taken back. Return the number of the last one."""
        for body in bodies:
            self.n += 1
            kind = "text" if isinstance(body, str) else "retract" if isinstance(body, list) else "value"
            self.view.take(Part(self.n, kind, body, at))
        return self.n

    @property
    def text(self) -> str:
        """What stands there."""
        return self.out.shown.text


def begins(call: str, tool: str = "read", **args: Any) -> dict[str, Any]:
    """Return the part with which a call begins."""
    return {"tool": tool, "call": call, "args": args}


def gave(call: str, value: Any, tool: str = "read", word: str = "gave") -> dict[str, Any]:
    """Return the part with which a call ends."""
    return {"tool": tool, "call": call, word: value}


def test_a_text_grows_and_is_broken_between_words() -> None:
    """A word that does not fit any more goes to the next line, whole."""
    looker = Looker()
    looker.hears("I shall look at the order and ", "then re", "fund it.\nSo", " be it.")
    assert looker.text == "I shall look at the order and then\nrefund it.\nSo be it."


def test_a_call_is_a_line_that_changes_when_it_ends() -> None:
    """Two calls side by side: each has its line, in the order in which they began, with what it gave."""
    looker = Looker()
    looker.hears({"says": "desk"}, "Let me see.", begins("1/0", path="a.py"), begins("1/1", path="b.py"))
    assert looker.text == "Let me see.\n  ● read path=a.py\n  ● read path=b.py"
    looker.hears(gave("1/1", "two"))
    assert looker.text == "Let me see.\n  ● read path=a.py\n  ✓ read path=b.py   two"
    looker.hears(gave("1/0", "no such file", word="failed"), at=3 * SECOND)
    looker.hears({"says": "desk"}, "So.")
    expected = 'Let me see.\n  ✕ read path=a.py\n    "no such file"   3.0s\n  ✓ read path=b.py   two\nSo.'
    assert looker.text == expected


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "lines"])
def test_a_call_that_spans_a_question_is_told_whole(*, terminal: bool) -> None:
    """What was settled for the question is known when its end comes: arguments and the result stand there once."""
    looker = Looker(terminal=terminal)
    looker.hears(begins("1/0", tool="helper", prompt="go"))
    looker.view.settle()
    looker.hears(gave("1/0", "helped", tool="helper"), gave("1/1", "late", tool="other"))
    looker.view.settle()
    assert looker.text.splitlines()[-2:] == ["  ✓ helper prompt=go   helped", "  ✓ other   late"]


@pytest.mark.parametrize("word", ["failed", "retry"])
def test_only_what_gave_something_back_has_a_tick(word: str) -> None:
    """What the model is to call again is not done."""
    looker = Looker(terminal=False)
    looker.hears(begins("1/0"), gave("1/0", "no", word=word))
    assert looker.text == f"  ✕ read   {'again: ' if word == 'retry' else ''}no"


def test_what_is_taken_back_is_replaced() -> None:
    """The half of an answer that a failed attempt said is gone from the screen; what was said before stays."""
    looker = Looker()
    looker.hears(begins("1/0"), gave("1/0", 1))
    first = looker.hears({"says": "desk"}, "Half of an answer that is long enough to be ")
    last = looker.hears("broken twice, and then it stops he")
    looker.hears([[first - 1, last]])
    assert looker.text == "  ✓ read   1"
    looker.hears({"says": "desk"}, "All of it.")
    assert looker.text == "  ✓ read   1\nAll of it."


def test_a_call_whose_worker_died_is_taken_back() -> None:
    """Its line goes, and comes again when it begins again."""
    looker = Looker()
    looker.hears("Look: ")
    n = looker.hears(begins("1/0", path="a"))
    looker.hears([[n, n]])
    assert looker.text == "Look:"
    looker.hears(begins("1/0", path="a"), gave("1/0", None))
    assert looker.text == "Look:\n  ✓ read path=a"


def test_what_has_scrolled_away_is_taken_back_in_words() -> None:
    """Nothing can be changed up there; a line says what follows."""
    looker = Looker()
    first = looker.n + 1
    last = looker.hears(*(f"line {n}\n" for n in range(3 * ROWS)))
    looker.hears([[first, last]], "Again.")
    assert looker.text.endswith("line 29\n[taken back; what follows replaces it]\nAgain.")


def test_what_stands_above_lines_of_others_is_erased() -> None:
    """They move up, however many rows they have, and what was said before the text stays."""
    looker = Looker()
    other = Beside(looker.out, looker.region)
    looker.hears(begins("1/0"))
    print("printed first", file=other)
    looker.hears(gave("1/0", 1))
    n = looker.hears("Half of ")
    print("its model is asked again later, which is longer than a row\nand a second line", file=other)
    looker.view.thinks("thinking")
    looker.hears("the an")
    looker.view.say("a line of the feed")
    looker.hears([[n, n + 1]])
    assert looker.text.split("\n") == [
        "printed first",
        "  ✓ read   1",
        "its model is asked again later, which is",
        " longer than a row",
        "and a second line",
        "a line of the feed",
        "  thinking",
    ]
    looker.view.thinks("")
    looker.hears("Half of the answer.")
    assert looker.text.endswith("\na line of the feed\nHalf of the answer.")


@pytest.mark.parametrize("between", ["a\tb", "\n".join("x" * ROWS)], ids=["unknown rows", "too far"])
def test_what_cannot_be_reached_is_taken_back_in_words(between: str) -> None:
    """Nobody knows where it stands, or it has scrolled away; so it is said, and what replaces it is told whole."""
    looker = Looker()
    n = looker.hears("Half of ")
    looker.region.beside(io.StringIO(), f"{between}\n")
    looker.hears([[n, n]], "Half of the answer.")
    assert looker.text.endswith("[taken back; what follows replaces it]\nHalf of the answer.")


def test_what_stands_above_an_answer_that_was_typed_is_taken_back_in_words() -> None:
    """What was typed may have any length."""
    looker = Looker()
    n = looker.hears("Half of ")
    looker.region.ask("> ")
    looker.out.shown.feed("yes\n")
    looker.region.answered()
    looker.hears([[n, n]], "Half of the answer.")
    expected = "Half of\n> yes\n[taken back; what follows replaces it]\nHalf of the answer."
    assert looker.text == expected


def test_what_was_settled_is_taken_back_in_words() -> None:
    """A text that something followed is told for good: a later retraction quotes it."""
    looker = Looker()
    n = looker.hears("I shall do it. ")
    looker.hears(begins("1/0"), gave("1/0", 1), [[n, n]])
    assert "taken back" in looker.text
    assert '"I shall do it."' in looker.text.replace("\n", "")


def test_lines_of_others_stand_by_themselves() -> None:
    """A print in the middle of a text does not end up in it, and the text goes on below."""
    looker = Looker()
    other = Beside(looker.out, looker.region)
    looker.hears("One two ")
    print("printed", file=other)
    looker.hears("three\nfour")
    print("more ", end="", file=other)
    print("of it", file=other)
    looker.hears(" five")
    assert looker.text == "One two\nprinted\nOne two three\nfour\nmore of it\nfour five"
    other.write("unended")
    other.flush()
    assert looker.text.endswith("four five\nunended")


def test_at_work_is_said_until_something_else_says_it() -> None:
    """It stands below everything, and is gone with the first word."""
    looker = Looker()
    looker.view.thinks("thinking")
    assert looker.text == "  thinking"
    looker.hears({"says": "desk"}, "Well.")
    assert looker.text == "Well."
    looker.hears(begins("1/0"), gave("1/0", 1))
    assert looker.text == "Well.\n  ✓ read   1\n  thinking"
    looker.view.say("A line of the feed.")
    assert looker.text == "Well.\n  ✓ read   1\nA line of the feed."
    looker.hears("And ")
    print("printed", file=Beside(looker.out, looker.region))
    looker.view.thinks("")
    assert looker.text == "Well.\n  ✓ read   1\nA line of the feed.\nAnd\nprinted"


def test_without_a_terminal_each_block_is_told_once() -> None:
    """Nothing is drawn again: a text is told when something follows it, a call when it has ended."""
    looker = Looker(terminal=False)
    looker.hears("Let me ", "see.", begins("1/0", path="a b"))
    assert looker.text == "Let me see."
    n = looker.hears(gave("1/0", "x"), {"says": "desk"}, "wrong")
    looker.hears([[n, n]], {"says": "desk"}, "All of", " it.")
    assert not looker.view.settle(but="something else")
    assert "\x1b" not in looker.out.getvalue()
    assert looker.text == 'Let me see.\n  ✓ read path="a b"   x\nAll of it.'


def test_the_answer_is_left_to_whoever_writes_it() -> None:
    """What is the result is not told twice."""
    looker = Looker(terminal=False)
    looker.hears(begins("1/0"), gave("1/0", "x"), "All of it.\n")
    assert looker.view.settle(but="All of it.")
    assert looker.text == "  ✓ read   x"


def test_a_plan_is_told_in_words() -> None:
    """Its milestones a line each, then where each of them stands; what only looks like one is JSON as ever."""
    looker = Looker(terminal=False)
    looker.hears({"plan": ["look", "mend"]}, {"milestone": "look", "state": "done"})
    looker.hears({"milestone": "mend", "state": "open", "by": "ana", "why": "not yet"})
    looker.hears({"plan": "stays as it is", "why": "no answer"}, {"plan": 7}, {"milestone": "look"}, 7)
    told = ["  plan", "    1. look", "    2. mend", "  look   done", "  mend   open   ana   not yet"]
    told += ["  plan   stays as it is   no answer", '  {"plan": 7}', '  {"milestone": "look"}', "  7"]
    assert looker.text.split("\n") == told


def test_what_would_drive_a_terminal_is_written_out() -> None:
    """Values come from models and tools."""
    looker = Looker()
    looker.hears(
        "\x1b[2Jhello\tyou\x07", begins("1/0", tool="\x1b[Aread", path="\x1b]0;x\x07"), gave("1/0", "\r\x9b1A")
    )
    looker.hears({"anything": "\x1b[5A"})
    assert "\\x1b[2Jhello    you\\x07" in looker.text  # and the emulator knows no other command


def test_a_part_that_came_before_changes_nothing() -> None:
    """Two readers may bring the same part."""
    looker = Looker()
    looker.hears("once")
    looker.view.take(Part(1, "text", "once", 0))
    assert looker.text == "once"


def test_what_was_pruned_is_said() -> None:
    """A reader who comes late is told."""
    looker = Looker()
    looker.view.take(Part(7, "pruned", {"from": 1, "to": 7, "why": "prune"}, 0))
    assert looker.text == "[what came before is pruned]"


@given(st.text(st.sampled_from("ab 水\U0001f600\n\t"), max_size=60), st.integers(2, 12))
def test_a_text_in_pieces_is_broken_as_a_whole(text: str, width: int) -> None:
    """Whatever the pieces are, the lines are the same, none is too wide, and no letter is lost."""
    by_letter = Wrapped(width)
    for letter in text:
        by_letter.add(letter)
    at_once = Wrapped(width)
    at_once.add(text)
    assert by_letter.lines == at_once.lines
    assert all(cells(line) <= width for line in at_once.lines)
    assert "".join("".join(at_once.lines).split()) == "".join(text.split())


def test_a_word_that_is_too_long_is_broken() -> None:
    """Anywhere: it has no better place."""
    assert wrapped("see abcdefghij", 4) == ["see", "abcd", "efgh", "ij"]


@st.composite
def streams(draw: st.DrawFn) -> list[Any]:
    """Draw bodies of a stream as a worker could emit it: attempts that speak, are kept, or taken back."""
    bodies: list[Any] = []
    for attempt in range(draw(st.integers(1, 5))):
        first = len(bodies) + 1
        if draw(st.booleans()):
            bodies.append({"says": "desk"})
            words = st.text(st.sampled_from("ab \n"), min_size=1, max_size=50)
            bodies += draw(st.lists(words, min_size=1, max_size=4))
        else:
            bodies.append(begins(f"{attempt}/0", path=draw(st.sampled_from(["a", "b" * 50]))))
        if draw(st.booleans()):
            bodies.append([[first, len(bodies)]])
        elif isinstance(bodies[-1], dict) and "args" in bodies[-1]:
            bodies.append(gave(f"{attempt}/0", draw(st.sampled_from([1, "x" * 60]))))
    return bodies


@given(streams())
def test_what_stands_there_is_what_is_kept(bodies: list[Any]) -> None:
    """On a terminal that is high enough, the same stands there as if only what is kept had ever come."""
    looker, plain = Looker(), Looker()
    looker.out.shown.rows = plain.out.shown.rows = 10_000
    kept = Kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(COLUMNS))
        patch.setenv("LINES", "10000")
        looker.hears(*bodies)
        for n, body in enumerate(bodies, 1):
            kept.take(n, "retract" if isinstance(body, list) else "text", body)
        plain.hears(*kept.parts.values())
        looker.view.settle()
        plain.view.settle()
    assert _without_words(looker.text) == _without_words(plain.text)


def _without_words(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("[taken back") and line.strip())


def test_an_emulator_breaks_lines() -> None:
    """What the tests stand on: it wraps, goes up and erases."""
    shown = Emulator(4, 2).feed("abcdef\ngh")
    assert shown.text == "abcd\nef\ngh"
    assert shown.feed("\x1b[5A\r\x1b[Jx").text == "abcd\nx"
