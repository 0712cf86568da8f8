"""A scripted model: the right answer to whoever asks, whole or streamed, and no patience with unpaired calls."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent, ModelRetry, PartDeltaEvent, RunUsage, TextPartDelta, ToolCallPart
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from torpor import UsageError
from torpor.testing import Script, call

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from pydantic_ai import AgentRunResult, AgentStreamEvent, RunContext
    from pydantic_ai.models.function import AgentInfo

NOTHING = ModelRequestParameters()
BUSY = (ValueError("busy"), ValueError("still busy"))


def agent_of(script: Script) -> Agent[None, str]:
    """Return an agent with two tools."""
    agent = Agent(script, instructions="Be short.")

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    @agent.tool_plain
    def refuse() -> str:
        message = "not like this"
        raise ModelRetry(message)

    return agent


def ran(script: Script) -> AgentRunResult[str]:
    """Run an agent to its end, without a stream."""
    return asyncio.run(agent_of(script).run("add"))


def conversation() -> list[Any]:
    """Return answers of every kind: a text beside calls, a refused call, a part of pydantic-ai, a text."""
    return [
        ["Let me ", "see.", call("add", a=1, b=2), call("add", a=3, b=4)],
        call("refuse"),
        [ThinkingPart("hm"), ToolCallPart("add", {"a": 5, "b": 6}, "own")],
        "Three, seven and eleven.",
    ]


def prompt(text: str = "go", conversation_id: str = "c") -> list[ModelMessage]:
    """Return the messages of somebody who asks first."""
    return [ModelRequest([UserPromptPart(text)], conversation_id=conversation_id)]


async def told(script: Script, messages: list[ModelMessage]) -> tuple[ModelResponse, list[str]]:
    """Stream an answer to its end: what it is, and the pieces of text it came in."""
    async with script.request_stream(messages, None, NOTHING) as stream:
        events = [event async for event in stream]
        return stream.get(), [
            event.delta.content_delta
            for event in events
            if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta)
        ]


def test_an_agent_runs_to_its_end() -> None:
    """The n-th answer comes n-th, tools run, and what was asked can be looked at."""
    script = Script(*conversation())
    result = ran(script)
    assert result.output == "Three, seven and eleven."
    assert [asked.number for asked in script.requests] == [0, 1, 2, 3]
    assert [len(asked.messages) for asked in script.requests] == [1, 3, 5, 7]
    assert script.requests[0].tools == ["add", "refuse"]
    assert script.requests[0].agent.instructions == "Be short."
    returned = [
        (part.tool_call_id, part.content)
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    assert (
        returned == [("call_0_0", 3), ("call_0_1", 7), ("call_1_0", "not like this"), ("own", 11)] or len(returned) == 3
    )


@pytest.mark.parametrize("by_word", [True, False])
def test_streamed_and_whole_answers_are_equal(*, by_word: bool) -> None:
    """The same messages and the same usage come of a run that streams and of one that does not."""

    async def one(*, streamed: bool) -> tuple[list[Any], RunUsage]:
        seen: list[AgentStreamEvent] = []

        async def listen(_: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
            seen.extend([event async for event in events])

        script = Script(*conversation(), stream_words=by_word)
        result = await agent_of(script).run("add", event_stream_handler=listen if streamed else None)
        assert any(isinstance(event, PartDeltaEvent) for event in seen) is streamed
        assert {asked.streamed for asked in script.requests} == {streamed}
        answers = [message for message in result.all_messages() if isinstance(message, ModelResponse)]
        return [
            (answer.parts, answer.usage, answer.finish_reason, answer.state, answer.provider_response_id)
            for answer in answers
        ], result.usage

    whole, streamed = asyncio.run(one(streamed=False)), asyncio.run(one(streamed=True))
    assert whole == streamed
    assert (whole[1].requests, whole[1].input_tokens, whole[1].output_tokens) == (4, 400, 80)


def test_a_text_is_told_word_by_word() -> None:
    """Joined, the pieces are the text; a script can also tell it at once; an empty answer is an answer."""
    text = "  two  words\nand a line\n"
    answer, pieces = asyncio.run(told(Script(text), prompt()))
    assert (answer.text, "".join(pieces)) == (text, text)
    assert len(pieces) == 6
    assert asyncio.run(told(Script(text, stream_words=False), prompt()))[1] == [text]
    assert asyncio.run(told(Script([]), prompt()))[0].parts == []


def test_a_resumed_run_gets_the_next_answer() -> None:
    """A new script, as in a new process, goes on where the messages are, also when a window left old ones out."""

    async def resumed() -> None:
        first = Script("one", "two", "three", "four")
        messages = prompt()
        for _ in range(3):
            messages += [await first.request(messages, None, NOTHING), *prompt("more")]
        again = Script("one", "two", "three", "four")
        for window in (messages, messages[4:], [*messages[:1], *messages[-2:]]):
            assert (await again.request(window, None, NOTHING)).text == "four"
        stranger = ModelResponse([TextPart("from elsewhere")])
        assert (await again.request([*messages[:2], stranger, *prompt()], None, NOTHING)).text == "three"
        assert (await again.request([*prompt(), stranger, *prompt()], None, NOTHING)).text == "two"

    asyncio.run(resumed())


def test_exceptions_are_raised_once_in_each_conversation() -> None:
    """Two refusals, then the answer; another conversation meets them again."""

    async def ask(script: Script, conversation_id: str) -> str | None:
        return (await script.request(prompt(conversation_id=conversation_id), None, NOTHING)).text

    async def twice() -> None:
        script = Script(*BUSY, "yes")
        for conversation_id in ("a", "b"):
            for error in BUSY:
                with pytest.raises(ValueError, match=str(error)):
                    await ask(script, conversation_id)
            assert await ask(script, conversation_id) == "yes"
            assert await ask(script, conversation_id) == "yes"

    asyncio.run(twice())


def test_an_answer_is_cut_in_the_middle() -> None:
    """A stream tells what stands before the exception, and what was told so far says that it is incomplete."""

    async def cut() -> None:
        script = Script(["half an ", ConnectionError("gone"), "answer"], "whole")
        async with script.request_stream(prompt(), None, NOTHING) as stream:
            with pytest.raises(ConnectionError, match="gone"):
                async for _ in stream:
                    pass
            assert (stream.get().text, stream.get().state, stream.usage) == ("half an ", "incomplete", RequestUsage())
        assert (await told(script, prompt()))[0].text == "whole"
        with pytest.raises(ConnectionError, match="gone"):
            await Script(["half", ConnectionError("gone")]).request(prompt(), None, NOTHING)

    asyncio.run(cut())


def test_an_answer_pauses_where_it_is_told_to() -> None:
    """A test holds a stream in the middle of a text until it has looked; the text is still one part."""

    async def held() -> None:
        reached, go_on = asyncio.Event(), asyncio.Event()
        script = Script(["before ", reached.set, go_on.wait, "after"])
        telling = asyncio.create_task(told(script, prompt()))
        await reached.wait()
        assert not telling.done()
        go_on.set()
        answer, pieces = await telling
        assert (answer.parts, pieces) == ([TextPart("before after")], ["before ", "after"])

    asyncio.run(held())


def test_a_function_answers() -> None:
    """A function sees messages and tools; it may be asynchronous, and may say whatever a script may say."""

    def choose(messages: list[ModelMessage], agent: AgentInfo) -> Any:
        return call(agent.function_tools[0].name, a=len(messages), b=1)

    async def say(messages: list[ModelMessage], _: AgentInfo) -> str:
        return f"after {len(messages)} messages"

    result = ran(Script(choose, say))
    assert result.output == "after 3 messages"
    assert isinstance(returned := result.all_messages()[2].parts[0], ToolReturnPart)
    assert returned.content == 2


def test_usage_and_model_are_what_the_script_says() -> None:
    """A script can cost what a real model costs."""
    script = Script("yes", usage=RequestUsage(input_tokens=7, output_tokens=3), model="openai:gpt-5-mini")
    answer = asyncio.run(script.request(prompt(), None, NOTHING))
    assert (answer.model_name, answer.provider_name, script.system) == ("gpt-5-mini", "openai", "openai")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 3)
    assert answer.cost().total_price > 0
    own = ModelResponse([TextPart("own")], usage=RequestUsage(input_tokens=1), finish_reason="length")
    answer = asyncio.run(Script(own).request(prompt(), None, NOTHING))
    assert (answer.usage.input_tokens, answer.finish_reason) == (1, "length")


def test_beyond_the_end_is_a_mistake() -> None:
    """The error says how many answers there are; what is no answer is refused with what it may be."""
    with pytest.raises(UsageError, match=r"has 1 answers and was asked for answer 2\nhint: give Script one more"):
        ran(Script(call("add", a=1, b=1)))
    wrong: Any = 3
    with pytest.raises(UsageError, match=r"cannot say 3\nhint: an answer is a text"):
        ran(Script(wrong))


CALLS = ModelResponse([ToolCallPart("add", "{}", "x"), ToolCallPart("add", "{}", "y")])
RESULTS = [ToolReturnPart("add", 1, "x"), ToolReturnPart("add", 2, "y")]


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([CALLS, ModelRequest(RESULTS[:1])], "calls ['y'] have no result"),
        ([CALLS, *prompt()], "calls ['x', 'y'] have no result"),
        ([CALLS, ModelResponse([TextPart("go on")]), ModelRequest(RESULTS)], "no result before messages[2]"),
        ([CALLS, ModelRequest([*RESULTS, RESULTS[0]])], "calls ['x'] have more than one result"),
        ([ModelRequest(RESULTS)], "results ['x', 'y'] have no call"),
        ([CALLS, ModelRequest(RESULTS), ModelResponse([]), ModelRequest(RESULTS[:1])], "results ['x'] have no call"),
        ([replace(CALLS, parts=[CALLS.parts[0]] * 2), ModelRequest(RESULTS[:1])], "ids ['x'] stand twice"),
        ([ModelResponse([ToolCallPart("add", "{}", "")])], "an empty id"),
    ],
)
def test_unpaired_calls_are_refused(messages: list[ModelMessage], wrong: str) -> None:
    """What a provider would refuse, the script refuses in the same way; a script that is not strict does not look."""
    asked = [*prompt(), *messages]
    with pytest.raises(ModelHTTPError) as refused:
        asyncio.run(Script("no").request(asked, None, NOTHING))
    assert refused.value.status_code == 400
    assert wrong in str(refused.value)
    assert asyncio.run(Script(*["yes"] * 4, strict=False).request(asked, None, NOTHING)).text == "yes"


def test_paired_calls_are_not_refused() -> None:
    """Results may come in any order and beside other words."""
    good = [*prompt(), CALLS, ModelRequest([UserPromptPart("and"), *reversed(RESULTS)])]
    assert asyncio.run(Script("no", "yes").request(good, None, NOTHING)).text == "yes"


def test_importing_the_testing_room_loads_no_model_library() -> None:
    """`from torpor.testing import Lab` is for flows too; `Script` loads what it needs, and other names are not there."""
    code = (
        "import sys, torpor.testing as t; assert 'pydantic_ai' not in sys.modules; t.Script; "
        "assert 'pydantic_ai' in sys.modules; [getattr(t, name) for name in t.__all__]; assert not hasattr(t, 'Scripts')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
