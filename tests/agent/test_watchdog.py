"""C23: polling is not a loop, and a loop is not always a repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import BinaryContent, ModelRequest, ToolCallPart

from tests.agent.conversations import answer, call, drawn, gave, turns
from torpor.agent.watchdog import Recent, Seen, Watchdog, seen
from torpor.errors import UsageError
from torpor.store.values import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

Turn = list[Seen]


LIMIT = 5


def one(name: str = "status", args: str = "{}", outcome: str = "the same", *, failed: bool = False) -> Turn:
    """Return a turn with one call."""
    return [Seen(name, args, outcome, failed)]


def found(made: Callable[[int], Turn], most: int = 60, limit: int = LIMIT) -> tuple[int, str]:
    """Return after how many turns something was found, and what; each turn on another worker, from what was stored."""
    recent = Recent()
    for number in range(most):
        reason = Watchdog(limit).look(recent, made(number))
        if reason:
            return number + 1, reason
        stored = decode(encode(recent))
        assert isinstance(stored, Recent)
        recent = stored
    return most, ""


def test_a_poll_that_progresses_is_left_alone() -> None:
    """Equal calls with answers that change are progress, however many (C23 a)."""
    assert found(lambda n: one(outcome=f"{n} of 60")) == (60, "")


def test_equal_calls_with_equal_answers_are_found() -> None:
    """The same call with the same answer is a loop after as many as were set (C23 b)."""
    count, reason = found(lambda _: one())
    assert count == LIMIT
    assert reason == "status: called 5 times with equal arguments, and the answer was the same each time"


def test_two_calls_in_rotation_are_found() -> None:
    """A, B, A, B without anything new is a loop (C23 c)."""
    count, reason = found(lambda n: one(("read", "list")[n % 2]))
    assert count == 2 * LIMIT
    assert "read, then list" in reason


def test_three_calls_in_rotation_are_found() -> None:
    """So is a round of three."""
    count, reason = found(lambda n: one(("read", "list", "write")[n % 3]))
    assert count == 3 * LIMIT
    assert "read, then list, then write" in reason


def test_a_rotation_in_which_something_changes_is_left_alone() -> None:
    """Write and test in turn, with another result each time, is work."""
    assert found(lambda n: one(("write", "test")[n % 2], outcome=f"{n}"))[1] == ""
    assert found(lambda n: one(("write", "test")[n % 2], args=f"{n // 2}"))[1] == ""


def test_an_error_that_repeats_is_found() -> None:
    """One tool that fails the same way, whatever it is called with, is a loop (C23 d)."""
    count, reason = found(lambda n: one("send", f"{n}", "503: try later", failed=True))
    assert count == LIMIT
    assert reason == "send: failed 5 times in a row with the same error: 503: try later"


def test_other_calls_in_between_do_not_hide_it() -> None:
    """The tool's own calls count, and what else happened does not."""
    count, reason = found(lambda n: one("send", f"{n}", "503", failed=True) if n % 2 else one("read", outcome=f"{n}"))
    assert count == 2 * LIMIT
    assert reason.startswith("send")


def test_a_success_ends_a_row_of_errors() -> None:
    """A tool that works now and then is not stuck; nor is one with another error each time."""
    assert found(lambda n: one("send", f"{n}", "503" if n % 4 else f"{n}", failed=n % 4 != 0))[1] == ""
    assert found(lambda n: one("send", f"{n}", f"no file {n}", failed=True))[1] == ""


def test_many_calls_of_one_answer_are_one_turn() -> None:
    """A model that asks for five equal things at once has not repeated anything yet."""
    assert found(lambda n: one(outcome=f"{n}") * 6)[1] == ""
    assert found(lambda n: one("send", f"{n}", "503", failed=True) * 6)[0] == LIMIT
    assert found(lambda _: one() * 6)[0] == LIMIT


def test_a_mixed_turn_is_progress_if_one_part_is() -> None:
    """Equal calls beside one with a new answer are no loop."""
    assert found(lambda n: one() + one("poll", outcome=f"{n}"))[1] == ""


def test_a_word_to_a_person_begins_anew() -> None:
    """A turn without calls ends the row: somebody was told something."""
    assert found(lambda n: [] if n % LIMIT == LIMIT - 1 else one(failed=True))[1] == ""


def test_a_person_may_let_it_go_on() -> None:
    """What was found is forgotten, so the run is stopped again only after as many turns."""
    recent, dog = Recent(), Watchdog(3)
    told = [bool(dog.look(recent, one())) for _ in range(9)]
    assert told == [False, False, True] * 3
    assert [bool(dog.look(recent, one(failed=True))) for _ in range(6)] == [False, False, True] * 2


@drawn
@given(st.lists(st.builds(Seen, st.text(max_size=9), st.text(), st.text(), st.booleans()), max_size=4))
def test_what_is_remembered_is_small(calls: Turn) -> None:
    """The state stays small however long a run is and whatever tools a model makes up."""
    recent, dog = Recent(), Watchdog(5)
    for number in range(100):
        dog.look(recent, [*calls, Seen(f"made-up-{number}", "{}", f"{number}", failed=True)])
    assert len(recent.turns) <= 15
    assert len(recent.errors) <= 16
    assert len(encode(recent)) < 4_000


def test_a_limit_of_one_is_refused() -> None:
    """The first call is no loop."""
    with pytest.raises(UsageError, match="limit of 1") as caught:
        Watchdog(1)
    assert caught.value.hint


# What is seen --------------------------------------------------------------------------------------------------------
def test_calls_are_seen_with_what_became_of_them() -> None:
    """Names, arguments, what the model was told, and whether that was an error; in the order of the calls."""
    calls = [call("read", "a", page=1), call("send", "b"), call("deploy", "c"), call("stop", "d")]
    results = [
        gave("b", "503", "send", outcome="failed"),
        gave("a", {"lines": 3}),
        gave("d", "no", "stop", outcome="denied"),
    ]
    assert seen([answer("let me see", *calls), ModelRequest(results)]) == [
        Seen("read", '{"page":1}'.replace('"', "'"), '{"lines":3}', failed=False),
        Seen("send", "{}", "503", failed=True),
        Seen("stop", "{}", "no", failed=False),
    ]


def test_equal_arguments_are_equal_however_they_are_written() -> None:
    """Order and spaces of a model's JSON make no difference; what cannot be parsed is compared as it is."""

    def args(given: str | dict[str, object]) -> str:
        turn: list[Any] = [answer(ToolCallPart("read", given, "a")), ModelRequest([gave("a")])]
        return seen(turn)[0].args

    assert args('{"b": [1, 2.5], "a": null}') == args({"a": None, "b": [1, 2.5]})
    assert args('{"a": 1}') != args('{"a": "1"}')
    assert args('{"a": ') == '{"a": '


def test_files_tell_answers_apart() -> None:
    """Two answers with the same words and other pictures are not equal."""

    def outcome(content: bytes) -> str:
        picture = BinaryContent(content, media_type="image/png")
        return seen([answer(call("look", "a")), ModelRequest([gave("a", ["here", picture], "look")])])[0].outcome

    assert outcome(b"1") != outcome(b"2")
    assert outcome(b"1") == outcome(b"1")


def test_a_real_conversation_is_watched() -> None:
    """From messages to a reason, turn by turn."""
    history = turns(LIMIT, "the same page")
    recent, dog = Recent(), Watchdog(LIMIT)
    for message in history:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                part.args = {"page": 1}
    told = [dog.look(recent, seen(history[n : n + 2])) for n in range(1, len(history), 2)]
    assert told[:-1] == [""] * (LIMIT - 1)
    assert told[-1].startswith("read: called 5 times")
