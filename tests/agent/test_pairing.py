"""The pairing of tool calls with results, whatever a crash or a provider left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    repair_messages,
)

from tests.agent.conversations import (
    MOMENT,
    answer,
    broken,
    call,
    complaint,
    drawn,
    gave,
    messages,
    said,
    turns,
)
from torpor.agent.transcript import answered, named, unanswered


def unknown(call: ToolCallPart) -> str:
    """Say what is known about a call that nothing answered."""
    return f"{call.tool_name} was interrupted; whether it acted is not known"


# Names of calls ------------------------------------------------------------------------------------------------------
@drawn
@given(messages.filter(lambda one: isinstance(one, ModelResponse)), st.integers(0, 9), st.sets(st.just("call_0")))
def test_every_call_has_an_id_of_its_own(response: ModelResponse, turn: int, taken: set[str]) -> None:
    """Empty, repeated and used ids give way to new ones; nothing else changes, and naming again changes nothing."""
    again = named(response, turn, taken)
    calls = [part for part in again.parts if isinstance(part, ToolCallPart)]
    numbers = [part.tool_call_id for part in calls]
    assert all(number.strip() for number in numbers)
    assert len(set(numbers)) == len(numbers)
    assert taken.isdisjoint(numbers)
    assert named(again, turn, taken) is again
    assert named(response, turn, taken) == again
    back: list[Any] = list(again.parts)
    for place, part in enumerate(response.parts):
        if isinstance(part, ToolCallPart):
            back[place] = replace(back[place], tool_call_id=part.tool_call_id)
    assert replace(again, parts=back) == response


def test_names_say_turn_and_position() -> None:
    """The new id is made of what identifies the call in the journal (C08)."""
    response = named(answer("let me see", call("read", "call_0"), call("read", "call_0"), call("read", "")), 7, ())
    assert [part.tool_call_id for part in response.tool_calls] == ["call_0", "torpor_7_1", "torpor_7_2"]


def test_a_provider_that_repeats_our_names() -> None:
    """A model that learned our ids and gives them itself does not make two calls equal."""
    response = named(answer(call("read", "torpor_7_1"), call("read", "")), 7, {"torpor_7_1"})
    assert [part.tool_call_id for part in response.tool_calls] == ["torpor_7_0", "torpor_7_1_2"]


def test_good_ids_stay() -> None:
    """An answer with nothing wrong is the very object it was."""
    response = answer(call("read", "a"), call("read", "b"))
    assert named(response, 1, {"c"}) is response


# Pairing -------------------------------------------------------------------------------------------------------------
@drawn
@given(broken)
def test_any_history_can_be_sent(history: list[Any]) -> None:
    """Whatever is missing, doubled or misplaced: a strict provider accepts what `answered` returns."""
    right = answered(history, unknown)
    assert complaint(right) == ""
    assert unanswered(right) == []


@drawn
@given(broken)
def test_nothing_is_lost_but_results_without_a_call(history: list[Any]) -> None:
    """Every answer stays as it is, every part that is no result stays, in order; and doing it twice changes nothing."""
    right = answered(history, unknown)
    assert [one for one in right if isinstance(one, ModelResponse)] == [
        one for one in history if isinstance(one, ModelResponse)
    ]

    def others(of: list[Any]) -> list[Any]:
        return [
            part
            for one in of
            if isinstance(one, ModelRequest)
            for part in one.parts
            if not isinstance(part, ToolReturnPart)
        ]

    assert others(right) == others(history)
    again = answered(right, unknown)
    assert all(one is other for one, other in zip(again, right, strict=True))


def test_a_result_of_another_tool_does_not_answer_one_of_several_calls() -> None:
    """Two calls without an id, and two results of one of them: the second is a duplicate, and it stays right."""
    calls = [ToolCallPart("read", {}, ""), ToolCallPart("write", {}, "")]
    first, second = (ToolReturnPart("write", content, "") for content in ("first", "second"))
    history: list[Any] = [ModelResponse(parts=list(calls)), ModelRequest(parts=[first, second])]
    assert unanswered(history) == [calls[0]]
    right = answered(history, unknown)
    assert [getattr(part, "content", None) for part in right[1].parts] == [unknown(calls[0]), "first"]
    assert answered(right, unknown)[1] is right[1]
    one: list[Any] = [ModelResponse(parts=[calls[0]]), ModelRequest(parts=[first])]
    assert answered(one, unknown)[1] is one[1]


@drawn
@given(broken)
def test_real_results_are_preferred(history: list[Any]) -> None:
    """As many calls get a made-up result as are open, and they are those that `unanswered` lists."""
    made_up = [
        part.tool_call_id
        for one in answered(history, unknown)
        for part in one.parts
        if isinstance(part, ToolReturnPart) and part.content == unknown(ToolCallPart(part.tool_name))
    ]
    assert made_up == [open_call.tool_call_id for open_call in unanswered(history)]


@drawn
@given(broken)
def test_pydantic_ai_finds_nothing_to_repair(history: list[Any]) -> None:
    """What it does by itself to a history adds no result and takes none away."""
    right = answered(history, unknown)

    def pairs(of: list[Any]) -> list[Any]:
        return [part for one in of for part in one.parts if isinstance(part, ToolReturnPart | ToolCallPart)]

    assert pairs(repair_messages(right)) == pairs(right)


def test_a_paired_history_is_left_alone() -> None:
    """A history that is right consists of the very objects it did."""
    history = turns(3, calls=2)
    right = answered(history, unknown)
    assert all(one is other for one, other in zip(right, history, strict=True))


def test_a_late_result_moves_to_its_call() -> None:
    """A result that came after the next message reaches the model once, with its call (C02)."""
    first, second = call("read", "a"), call("read", "b")
    history: list[Any] = [
        said("go"),
        answer(first, second),
        ModelRequest([gave("b")]),
        said("and?"),
        ModelRequest([gave("a", "late")]),
    ]
    right = answered(history, unknown)
    assert right[2].parts == [gave("a", "late"), gave("b")]
    assert right[3] is history[3]
    assert len(right) == 4


def test_an_interrupted_call_goes_on_talking() -> None:
    """A call that was interrupted is paired with what is known, before what was said next; a late return is dropped (C13)."""
    history: list[Any] = [said("go"), answer(call("write", "a")), said("stop that")]
    right = answered(history, unknown)
    result, prompt = right[2].parts
    assert isinstance(result, ToolReturnPart)
    assert (result.tool_call_id, result.outcome) == ("a", "interrupted")
    assert "not known" in str(result.content)
    assert prompt == history[2].parts[0]
    late = [*right, answer("it is stopped"), ModelRequest([gave("a", "both files", "write")])]
    assert answered(late, unknown) == [*right, answer("it is stopped")]


def test_equal_ids_are_answered_in_order() -> None:
    """Two calls with one id get their results by tool, else in order; a third result has no call (C08)."""
    history: list[Any] = [
        said("go"),
        answer(call("read", "x", page=1), call("write", "x")),
        ModelRequest([gave("x", "written", "write"), gave("x", "page"), gave("x", "again")]),
    ]
    right = answered(history, unknown)
    assert [part.content for part in right[2].parts] == ["page", "written"]  # type: ignore[union-attr]


def test_an_id_that_is_used_again_belongs_to_the_later_call() -> None:
    """The earlier call is open for good, and what comes with the id answers the later one."""
    history: list[Any] = [answer(call("read", "x")), answer(call("read", "x")), ModelRequest([gave("x", "second")])]
    assert unanswered(history) == [call("read", "x")]
    right = answered(history, unknown)
    assert [type(one).__name__ for one in right] == ["ModelResponse", "ModelRequest", "ModelResponse", "ModelRequest"]
    assert right[3].parts == [gave("x", "second")]


def test_malformed_arguments_stay_as_they_are() -> None:
    """A call whose JSON broke off is answered like any other, and is not repaired."""
    torn = ToolCallPart("read", '{"page": ', "a")
    right = answered([answer(torn)], unknown)
    assert right[0].parts == [torn]
    assert len(right) == 2


def test_notes_about_tools_may_stand_among_results() -> None:
    """pydantic-ai puts what a tool made available right behind its result, and renders it there."""
    request = ModelRequest([gave("a"), ToolAvailabilityDeltaPart(tools_added=["sell"], tool_call_id="a"), gave("b")])
    history: list[Any] = [answer(call("read", "a"), call("read", "b")), request]
    assert answered(history, unknown)[1] is request


def test_an_empty_request_stays() -> None:
    """A request that consists of instructions only is no leftover."""
    request = ModelRequest([], instructions="sum up")
    assert answered([answer("hello"), request], unknown)[1] is request


def test_a_made_up_result_is_always_the_same() -> None:
    """It takes its time from the answer, so two workers send the same bytes and a provider's cache lives."""
    history: list[Any] = [answer(call("read", "a"))]
    assert answered(history, unknown) == answered(history, unknown)
    [_, request] = answered(history, unknown)
    assert request.parts[0].timestamp == MOMENT  # type: ignore[union-attr]
