"""G14 for messages (calls and results: `test_pairing.py`)."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pydantic_ai.messages as messages_of_pydantic_ai
import pytest
from hypothesis import given
from pydantic import BaseModel
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)

from tests.agent.conversations import (
    MOMENT,
    answer,
    call,
    drawn,
    gave,
    messages,
    said,
)
from torpor.agent.transcript import WRITER, mended, read, stored, unanswered
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
