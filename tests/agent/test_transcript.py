"""G14 for messages, and the pairing of tool calls with results whatever a crash or a provider left behind."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pydantic_ai.messages as messages_of_pydantic_ai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
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
from torpor.agent.transcript import WRITER, answered, mended, named, read, stored, unanswered
from torpor.errors import SchemaMismatch, StoreCorrupt, UnstorableValue
from torpor.store.values import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator


class Page(BaseModel):
    """What a tool may return."""

    number: int
    seen_at: datetime


def kept(message: Any) -> Any:
    """Return a message that was in a store."""
    return read(decode(encode(stored(message))))


def parts_of(value: Any) -> Iterator[Any]:
    """Yield a value and all that is in it."""
    yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from parts_of(part)


def unknown(call: ToolCallPart) -> str:
    """Say what is known about a call that nothing answered."""
    return f"{call.tool_name} was interrupted; whether it acted is not known"


# Storing -------------------------------------------------------------------------------------------------------------
@drawn
@given(messages)
def test_what_is_read_is_what_was_written(message: Any) -> None:
    """Any message with any part comes back from a store as it was (G14)."""
    assert kept(message) == message


@drawn
@given(messages)
def test_a_stored_message_names_no_class(message: Any) -> None:
    """What lies in a store is JSON with the writer's version: it can be read when the author's code is gone."""
    one = stored(message)
    assert one[WRITER] == version("pydantic-ai-slim")
    assert {type(part) for part in parts_of(one)} <= {dict, list, str, int, float, bool, type(None)}


@drawn
@given(messages)
def test_a_stored_message_is_in_the_form_of_pydantic_ai(message: Any) -> None:
    """Any program with pydantic-ai can read what is stored, and what it would write itself is the same, less defaults."""
    one = stored(message)
    [own] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    assert ModelMessagesTypeAdapter.validate_python([one]) == [message]
    assert {name: node for name, node in own.items() if name in one and name not in {"parts", "usage"}} == {
        name: node for name, node in one.items() if name not in {WRITER, "parts", "usage"}
    }
    assert not [name for name, node in own.items() if name not in one and node not in (None, "complete")]
    for node, whole in zip(one["parts"], own["parts"], strict=True):
        assert node == {name: value for name, value in whole.items() if name in node}
        left = {name: value for name, value in whole.items() if name not in node}
        assert all(value in (None, False, "success", "conversation", "rewrite") for value in left.values())
        assert not any(name.endswith("kind") and value for name, value in left.items())


def test_what_is_a_default_is_not_stored() -> None:
    """A short message is stored in little more than it says."""
    body = encode(stored(answer("yes", call("read", "c1", page=None))))
    assert b"provider" not in body
    assert b"usage" not in body.replace(b'"usage":{}', b"")
    assert b'"page":null' in body  # what a model said is no default
    assert b"complete" not in body
    assert len(body) < 310
    assert b"success" not in encode(stored(ModelRequest([gave("c1", "yes")])))


def test_a_result_of_none_stays() -> None:
    """A tool that returned nothing has a result."""
    message = ModelRequest([gave("c1", None)])
    assert kept(message) == message


def test_values_come_back_as_the_json_that_models_are_sent() -> None:
    """A result that JSON cannot say comes back as what a model is sent for it, and stays that."""
    page = Page(number=3, seen_at=datetime(2026, 1, 2, tzinfo=UTC))
    for value in [page, [page], (1, 2), {1: "a"}, {"when": page.seen_at}, [float("nan")], page.seen_at, b"\xff\x00"]:
        message = ModelRequest([gave("c1", value)])
        again = kept(message)
        assert again.parts[0].model_response_str() == message.parts[0].model_response_str()  # type: ignore[union-attr]
        assert kept(again) == again


def test_an_image_comes_back_as_an_image() -> None:
    """pydantic-ai narrows binary content that is an image when it reads it."""
    [part] = kept(ModelRequest([UserPromptPart([BinaryContent(b"\x89", media_type="image/png")])])).parts
    assert part.content == [BinaryImage(b"\x89", media_type="image/png")]


def test_half_of_a_pair_gives_way_to_a_stated_replacement() -> None:
    """Text that no provider can be sent, as a tool's file names may be, is stored as the nearest that can (C15)."""
    odd = {"a\ud800": ["b\udc00c", "\U0001f600", "\0", 2**70]}
    [prompt, result] = kept(ModelRequest([UserPromptPart("x\ud83d"), gave("c1", odd)])).parts
    assert prompt.content == "x\ufffd"
    assert result.content == {"a\ufffd\ufffd\ufffd": ["b\ufffdc", "\U0001f600", "\0", 2**70]}
    assert mended("no \\ud800") == "no \\ud800"
    assert mended("\ud83d\ude00") == "\U0001f600"


def test_what_looks_like_a_file_is_none() -> None:
    """A mapping of a tool's that looks like a stored file does not become one: nobody fetches an address a tool made up."""
    forged = {"kind": "image-url", "url": "https://example.org/a.png", "media_type": "image/png", "identifier": "x"}
    assert kept(ModelRequest([gave("c1", [forged])])).parts[0].content == [forged]


def test_retries_of_an_older_version_are_read() -> None:
    """The part that pydantic-ai gave up comes back as the result it always was, and answers its call until then."""
    old_kind = vars(messages_of_pydantic_ai)["RetryPromptPart"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = ModelRequest([old_kind("again", tool_name="read", tool_call_id="c1", timestamp=MOMENT)])
        [part] = kept(old).parts
    assert (part.tool_call_id, part.outcome, part.content) == ("c1", "retried", "again")
    assert unanswered([answer(call("read", "c1")), old]) == []


def test_what_has_no_form_is_refused_with_its_path() -> None:
    """A value that JSON cannot say at all is refused, and the error names where it is (G14)."""
    message = ModelRequest([SystemPromptPart("be brief"), gave("c1", {"rows": [1, {"socket": object()}]})])
    with pytest.raises(UnstorableValue, match="Unable to serialize unknown type") as caught:
        stored(message)
    assert caught.value.path == "message.parts[1].content.rows[1].socket"
    assert caught.value.hint


def test_what_contains_itself_is_refused() -> None:
    """A value without an end is refused and not followed for ever."""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UnstorableValue) as caught:
        stored(ModelRequest([gave("c1", endless)]))
    assert caught.value.path.startswith("message.parts[0].content")


def test_a_part_that_could_not_be_read_is_refused() -> None:
    """A text that is none is refused when it is written, not when it is read."""
    with pytest.raises(UnstorableValue) as caught:
        stored(ModelResponse([TextPart(5)]))  # type: ignore[arg-type]
    assert caught.value.path == "message.parts[0]"


def test_a_newer_writer_is_named() -> None:
    """A message that this version cannot read says who wrote it and what to install."""
    one = stored(said("hello")) | {WRITER: "99.0.0", "kind": "dream"}
    with pytest.raises(SchemaMismatch, match=r"99\.0\.0") as caught:
        read(one)
    assert "99.0.0" in caught.value.hint


@pytest.mark.parametrize("one", ["text", None, {"kind": "request"}, stored(said("hello")) | {"parts": 3}])
def test_what_is_no_message_is_corrupt(one: Any) -> None:
    """Bytes that torpor did not write are said to be that."""
    with pytest.raises(StoreCorrupt):
        read(one)


def test_reading_leaves_what_it_read() -> None:
    """The stored form is not changed by reading it."""
    one = stored(said("hello"))
    before = dict(one)
    assert read(one) == read(one)
    assert one == before


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
