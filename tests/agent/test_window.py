"""What a model call sends of a conversation that is too long for it: it can be sent, is always the same, and costs little."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextContent,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tests.agent.conversations import MOMENT, answer, broken, call, complaint, drawn, gave, messages, said, turns
from torpor.agent.transcript import answered, unanswered
from torpor.agent.window import Window, cut, prompts_of, shortened, text_tokens, tokens_of, weight
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

sizes = st.integers(1, 40)
outputs = st.sampled_from(["done", "x" * 50, "y" * 2_000, "z" * 20_000])


@st.composite
def conversations(draw: st.DrawFn) -> list[ModelMessage]:
    """Draw a conversation as the driver keeps it: paired but for the newest answer, with what people say in between."""
    history: list[ModelMessage] = [said("mend the roof")]
    for turn in range(draw(st.integers(0, 25))):
        numbers = [f"{turn}.{n}" for n in range(draw(st.integers(0, 3)))]
        history.append(answer("let me see", *(call("read", number, page=turn) for number in numbers)))
        following: list[Any] = [gave(number, draw(outputs)) for number in numbers]
        if not numbers or draw(st.booleans()):
            following.append(UserPromptPart(f"and {turn}?", timestamp=MOMENT))
        history.append(ModelRequest(following))
    if draw(st.booleans()):
        history.append(answer(call("deploy", "open.0"), call("read", "open.1")))
        if draw(st.booleans()):
            history.append(ModelRequest([gave("open.1")]))
    return history


def pins(history: Sequence[ModelMessage]) -> dict[int, ModelMessage]:
    """Return what a driver pins: the first prompt and the last thing a person said."""
    spoken = [
        number
        for number, one in enumerate(history)
        if isinstance(one, ModelRequest) and any(isinstance(part, UserPromptPart) for part in one.parts)
    ]
    return {number: history[number] for number in (spoken[0], spoken[-1])}


def over(window: Window, history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the window over a whole conversation."""
    return window.of(reversed(history), len(history), pinned=pins(history))


def prompts(history: Sequence[ModelMessage]) -> list[Any]:
    """Return what people said."""
    return [part.content for one in history for part in one.parts if isinstance(part, UserPromptPart)]


def calls(history: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """Return the tool calls."""
    return [part for one in history for part in one.parts if isinstance(part, ToolCallPart)]


def without_open(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return a history whose open calls are closed, as the driver closes them before it sends."""
    return answered(history, lambda one: f"{one.tool_name} waits")


# Invariants ----------------------------------------------------------------------------------------------------------
@drawn
@given(conversations(), sizes)
def test_a_window_can_be_sent(history: list[ModelMessage], hundreds: int) -> None:
    """Calls and results stay together, it begins with a request, and none of its results is without its call."""
    window = over(Window(hundreds * 100, 100), history)
    assert isinstance(window[0], ModelRequest)
    assert not any(isinstance(part, ToolReturnPart) for part in window[0].parts)
    assert complaint(without_open(window)) == ""
    assert unanswered(window) == unanswered(history)


@drawn
@given(broken, sizes)
def test_so_can_one_over_what_was_put_right(history: list[ModelMessage], tens: int) -> None:
    """Whatever came from a store: paired first, any window over it can be sent (C02)."""
    right = without_open(history)
    window = Window(tens * 10, 40).of(reversed(right), len(right))
    assert complaint(window) == ""


@drawn
@given(conversations(), sizes)
def test_what_must_survive_survives(history: list[ModelMessage], hundreds: int) -> None:
    """The first prompt, the last thing a person said, open calls and the newest answer are in every window."""
    window = over(Window(hundreds * 100, 100), history)
    said_there = prompts(window)
    assert prompts(history)[0] in said_there
    assert prompts(history)[-1] in said_there
    assert all(said_there.count(text) == 1 for text in prompts(history) if text in said_there)
    newest = next((one for one in reversed(history) if isinstance(one, ModelResponse)), None)
    assert newest is None or any(one is newest for one in window)


@drawn
@given(conversations(), sizes)
def test_a_window_is_the_end_of_the_conversation(history: list[ModelMessage], hundreds: int) -> None:
    """Behind what is pinned come the newest messages without a gap, unchanged but for cut outputs."""
    window = over(Window(hundreds * 100, 100), history)
    tail = window if len(window) == len(history) and window[0] is history[0] else window[1:]
    for one, other in zip(tail, history[len(history) - len(tail) :], strict=True):
        if isinstance(other, ModelResponse):
            assert one is other
        else:
            kinds = [(type(part), getattr(part, "tool_call_id", "")) for part in one.parts]
            assert kinds == [(type(part), getattr(part, "tool_call_id", "")) for part in other.parts]


@drawn
@given(conversations(), sizes)
def test_a_window_fits(history: list[ModelMessage], hundreds: int) -> None:
    """It has no more tokens than it may, unless what must be there alone has more."""
    most = hundreds * 100
    window = over(Window(most, 100), history)
    if weight(window) > most:
        answers = [one for one in window if isinstance(one, ModelResponse)]
        assert len(answers) <= 1
        assert all(text_tokens(text_of(part)) <= 100 for one in window for part in one.parts)


def text_of(part: Any) -> str:
    """Return a part's text."""
    return str(getattr(part, "content", ""))


@drawn
@given(conversations(), sizes)
def test_a_window_is_always_the_same(history: list[ModelMessage], hundreds: int) -> None:
    """The same messages give the same window, to the last timestamp: a restart changes nothing."""
    window = Window(hundreds * 100, 100)
    assert over(window, history) == over(window, history)


@drawn
@given(conversations())
def test_what_fits_is_sent_as_it_is(history: list[ModelMessage]) -> None:
    """With room for everything, everything is there, and each message is the very object it was."""
    window = over(Window(1_000_000), history)
    assert all(one is other for one, other in zip(window, history, strict=True))


@drawn
@given(conversations(), sizes)
def test_it_needs_no_more_than_it_reads(history: list[ModelMessage], hundreds: int) -> None:
    """A window over the messages that an earlier one looked at is the same window."""
    window = Window(hundreds * 100, 100)
    looked: list[ModelMessage] = []

    def noted() -> Iterator[ModelMessage]:
        for message in reversed(history):
            looked.append(message)
            yield message

    first = window.of(noted(), len(history), pinned=pins(history))
    assert window.of(looked, len(history), pinned=pins(history)) == first


# Cost ----------------------------------------------------------------------------------------------------------------
def test_a_long_conversation_costs_what_a_short_one_does() -> None:
    """Over 5,000 messages no more are looked at than over 100 (G9)."""
    looked = []
    for count in (50, 500, 2_500):
        taken = 0

        def counted(history: list[ModelMessage]) -> Iterator[ModelMessage]:
            nonlocal taken
            for message in reversed(history):
                taken += 1
                yield message

        history = turns(count)
        Window(1_000).of(counted(history), len(history), pinned={0: history[0]})
        looked.append(taken)
    assert max(looked) - min(looked) <= 8
    assert max(looked) < 100


def test_the_beginning_stays_for_several_calls() -> None:
    """While a conversation grows, the window's first messages change only now and then: a provider's cache lives."""
    window = Window(2_000, 100)
    history = turns(100, "x" * 100)
    begins: list[list[ModelMessage]] = []
    longest = 0
    for count in range(101, len(history) + 1, 2):
        sent = over(window, history[:count])
        if not begins or begins[-1] != sent[:2]:
            begins.append(sent[:2])
        longest = max(longest, weight(sent))
    assert len(begins) <= 50 // 4
    assert 1_500 < longest <= 2_000


# Cutting -------------------------------------------------------------------------------------------------------------
def test_an_old_output_is_cut_before_a_turn_is_left_out() -> None:
    """Old big outputs go first, and the reference says how long they were and where they are whole."""
    history = [*turns(1, "a" * 48_120), *turns(4, "b" * 600)[1:]]
    window = over(Window(3_000, 200), history)
    assert len(window) == len(history)
    content = text_of(window[2].parts[0])
    assert "\n[cut: 48,120 letters; message 2]\n" in content
    assert content.startswith("aaaa")
    assert content.endswith("aaaa")
    assert text_tokens(content) <= 200
    assert window[-1] is history[-1]


def test_a_newest_output_that_is_too_big_is_shortened() -> None:
    """One result of 20,000 tokens in a window of 8,000 is shortened and says so: the conversation goes on (C17)."""
    history = turns(3, "x" * 60_000)
    window = over(Window(8_000, 500), history)
    assert weight(window) <= 8_000
    [part] = window[-1].parts
    assert "[cut: 60,000 letters; message 6]" in text_of(part)
    assert len(text_of(part)) > 9_000


def test_what_cannot_fit_is_told() -> None:
    """A prompt that is bigger than the window is sent all the same, and `weight` tells that it does not fit."""
    history = [said("x" * 9_000), *turns(2)[1:]]
    window = over(Window(1_000), history)
    assert weight(window) > 1_000
    assert complaint(window) == ""


def test_what_is_left_out_is_told() -> None:
    """The model sees that something is missing, and how much."""
    history = turns(200)
    window = over(Window(1_000), history)
    first, note = window[0].parts
    assert first is history[0].parts[0]
    left_out = len(history) - len(window)
    assert isinstance(note, UserPromptPart)
    assert note.content == f"[cut: {left_out} earlier messages]"


def test_a_window_over_the_newest_messages_only() -> None:
    """An iterator that ends before the first message gives a window that says so; what it broke off in is left out."""
    history = turns(200)
    newest = history[-25:]
    assert any(isinstance(part, ToolReturnPart) for part in newest[0].parts)
    window = Window(100_000).of(reversed(newest), len(history), pinned={0: history[0]})
    assert complaint(window) == ""
    assert prompts(window)[0] == "mend the roof"
    assert "earlier messages]" in prompts(window)[1]
    assert len(window) in range(17, 26)


def test_no_messages_no_window() -> None:
    """An empty conversation sends nothing; pins alone are sent."""
    assert Window(1_000).of([], 0) == []
    assert Window(1_000).of([], 9, pinned={0: said("hello")}) == [said("hello")]


def test_a_pin_keeps_no_result() -> None:
    """What was said together with results is kept without them: their calls may not be there."""
    feedback = RetryFeedbackPart("again", retry=RetryInfo("no_output"), timestamp=MOMENT)
    prompt, system = UserPromptPart("stop", timestamp=MOMENT), SystemPromptPart("be brief", timestamp=MOMENT)
    assert prompts_of(ModelRequest([system, gave("a"), feedback, prompt])).parts == [system, prompt]
    assert prompts_of(answer("hello")).parts == []
    kept = said("hello")
    assert prompts_of(kept) is kept


def test_results_that_are_read_again_are_not_cut() -> None:
    """What pydantic-ai's own tools answer decides which tools there are, so it stays whole."""
    message = ModelRequest([gave("a", "x" * 9_000, tool_kind="own:kind")])
    assert cut(message, 3, 50) is message


def test_files_and_values_are_cut() -> None:
    """A big value is cut as its JSON, a file gives way to what it was."""
    picture = BinaryContent(b"\0" * 4_000, media_type="image/png")
    address = ImageUrl("https://example.org/a.png")
    message = ModelRequest([gave("a", ["see", picture, address]), gave("b", {"rows": list(range(3_000))}), gave("c")])
    first, second, third = cut(message, 17, 60).parts
    assert text_of(first) == "see\n[cut: image/png, 4,000 bytes; message 17]\n[cut: image/png; message 17]"
    assert text_of(second).startswith('{"rows":[0,1,2')
    assert "letters; message 17]" in text_of(second)
    assert text_tokens(text_of(second)) <= 60
    assert third is message.parts[2]


def reference_of(whole: str, number: int) -> str:
    """Return what says where a text is whole."""
    return f"[cut: {len(whole):,} letters; message {number}]"


@drawn
@given(st.text(max_size=60), st.integers(32, 60), st.integers(0, 10**6))
def test_what_is_shortened_fits(text: str, most: int, number: int) -> None:
    """In any script, the beginning, the reference and the end have no more tokens than they may, and are the text's own."""
    whole = text * 9
    short = shortened(whole, number, most)
    assert text_tokens(short) <= max(most, text_tokens(reference_of(whole, number)))
    before, reference, after = short.partition(reference_of(whole, number))
    assert reference
    assert before.strip("\n") in whole
    assert after.strip("\n") in whole


@drawn
@given(messages, st.integers(32, 200))
def test_cutting_twice_changes_nothing(message: Any, most: int) -> None:
    """A cut message is small enough to be left alone."""
    once = cut(message, 3, most)
    assert cut(once, 3, most) == once


# Tokens --------------------------------------------------------------------------------------------------------------
@drawn
@given(messages)
def test_every_message_can_be_counted(message: Any) -> None:
    """Whatever its parts, a message has tokens, and at least as many as its texts."""
    parts = message.parts
    assert tokens_of(message) >= 4 + 4 * len(parts)
    longer = replace(message, parts=[*parts, *parts])
    assert tokens_of(longer) == 2 * tokens_of(message) - 4


@pytest.mark.parametrize(
    ("part", "least"),
    [
        (UserPromptPart("word " * 100), 120),
        (UserPromptPart("水" * 100), 100),
        (UserPromptPart([TextContent("word " * 100, metadata={"x": "y" * 9_000}), "more"]), 120),
        (UserPromptPart([ImageUrl("https://example.org/a")]), 1_600),
        (UserPromptPart([AudioUrl("https://example.org/a")]), 8_000),
        (UserPromptPart([BinaryContent(b"word " * 100, media_type="text/plain")]), 120),
        (UserPromptPart([BinaryContent(b"\0" * 36_000, media_type="application/pdf")]), 3_000),
        (UserPromptPart([BinaryContent(b"\0" * 160_000, media_type="audio/mpeg")]), 300),
    ],
)
def test_tokens_are_rather_too_many(part: Any, least: int) -> None:
    """Counts are above what providers count, and of the right size."""
    assert least <= tokens_of(ModelRequest([part])) <= 3 * least + 20


def test_what_is_sent_back_is_counted() -> None:
    """Signatures, arguments and names are sent too."""
    thinking = ModelResponse([ThinkingPart("", signature="s" * 3_000)])
    assert tokens_of(thinking) >= 1_000
    assert tokens_of(answer(ToolCallPart("read", {"page": "p" * 3_000}))) >= 1_000


def test_the_caller_may_count() -> None:
    """A real tokenizer decides what fits."""
    history = turns(50)
    assert len(Window(12).of(reversed(history), len(history), tokens=lambda _: 1)) == 3
    assert len(Window(1_000).of(reversed(history), len(history), tokens=lambda _: 1)) == len(history)


@pytest.mark.parametrize("sizes", [(0, 100), (100, 3)])
def test_a_window_without_room_is_refused(sizes: tuple[int, int]) -> None:
    """A size in which nothing fits is a mistake, said at once."""
    with pytest.raises(UsageError) as caught:
        Window(*sizes)
    assert caught.value.hint
