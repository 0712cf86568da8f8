"""A plain agent of pydantic-ai against the provider over real HTTP: the misbehaviour that agents must live with is real."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent, PartDeltaEvent, TextPartDelta
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from tests.agent.provider.openai_stub import Called, Cuts, Provider, Refuses, Says
from tests.agent.provider.rules import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from pydantic_ai import AgentRunResult, AgentStreamEvent, RunContext
    from pydantic_ai.messages import ModelMessage

ADD = Called("c1", "add", '{"a": 1, "b": 2}')
THREE = Says("It is three")
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def ask(
    provider: Provider, *, stream: bool, history: list[ModelMessage] | None = None, retries: int = 0
) -> tuple[AgentRunResult[str], list[str]]:
    """Run an agent with one tool to its end; return its result and the pieces of text it streamed."""

    async def run() -> tuple[AgentRunResult[str], list[str]]:
        pieces: list[str] = []

        async def listen(_: RunContext[object], events: AsyncIterable[AgentStreamEvent]) -> None:
            deltas = [event.delta async for event in events if isinstance(event, PartDeltaEvent)]
            pieces.extend(delta.content_delta for delta in deltas if isinstance(delta, TextPartDelta))

        async with provider.model(retries=retries) as model:
            agent = Agent(model)

            @agent.tool_plain
            def add(a: int, b: int) -> int:
                return a + b

            asked = agent.run("go", message_history=history, event_stream_handler=listen if stream else None)
            return await asked, pieces

    return asyncio.run(run())


def results(result: AgentRunResult[Any]) -> list[ToolReturnPart]:
    """Return the results of tools in a run's messages."""
    parts = [part for message in result.all_messages() for part in message.parts]
    return [part for part in parts if isinstance(part, ToolReturnPart)]


@both
def test_calls_and_texts(provider: Provider, *, stream: bool) -> None:
    """Two calls at once, then a text; usage is what the provider said."""
    provider.say(Says("Let me see", (ADD, Called("c2", "add", '{"a": 3, "b": 4}'))), THREE)
    result, pieces = ask(provider, stream=stream)
    assert result.output.strip() == "It is three"
    assert [part.content for part in results(result)] == [3, 7]
    assert (result.usage.requests, result.usage.input_tokens, result.usage.output_tokens) == (2, 200, 40)
    assert len(provider.requests) == 2
    assert set(provider.keys) == {"Bearer sk-test"}
    assert [request.get("stream", False) for request in provider.requests] == [stream, stream]
    assert bool(pieces) is stream


@both
def test_too_many_requests(provider: Provider, *, stream: bool) -> None:
    """429 arrives with its Retry-After, once; the same request is answered afterwards."""
    provider.say(Refuses(429, "slow down", retry_after="7"), THREE)
    with pytest.raises(ModelHTTPError, match="slow down") as refused:
        ask(provider, stream=stream)
    assert refused.value.status_code == 429
    assert refused.value.headers is not None
    assert refused.value.headers["retry-after"] == "7"
    assert ask(provider, stream=stream)[0].output.strip() == "It is three"
    assert len(provider.requests) == 2


@both
def test_a_provider_that_is_broken(provider: Provider, *, stream: bool) -> None:
    """500 is an error with its status; a client that tries again by itself gets over it, which costs a second request."""
    provider.say(Refuses(500), Refuses(500), THREE)
    with pytest.raises(ModelHTTPError) as refused:
        ask(provider, stream=stream)
    assert refused.value.status_code == 500
    assert ask(provider, stream=stream, retries=1)[0].output.strip() == "It is three"
    assert len(provider.requests) == 3


@both
@pytest.mark.parametrize("after", [1, 2])
def test_a_connection_that_breaks(provider: Provider, *, stream: bool, after: int) -> None:
    """In the middle of a body or a stream: an error, not half an answer that is taken for a whole one."""
    provider.say(Cuts(THREE, after), THREE)
    with pytest.raises(ModelAPIError):
        ask(provider, stream=stream)
    assert ask(provider, stream=stream)[0].output.strip() == "It is three"


@both
def test_arguments_that_are_no_json(provider: Provider, *, stream: bool) -> None:
    """pydantic-ai asks the model again, and the broken call has its one result."""
    provider.say(Says(calls=(Called("c1", "add", '{"a": 1, "b"'),)), Says(calls=(ADD,)), THREE)
    result, _ = ask(provider, stream=stream)
    assert result.output.strip() == "It is three"
    assert len(provider.requests) == 3
    assert [message["role"] for message in provider.requests[1]["messages"]] == ["user", "assistant", "tool"]


@both
def test_ids_that_come_again(provider: Provider, *, stream: bool) -> None:
    """The same id in two answers is two calls; twice in one answer pydantic-ai cannot tell apart, and runs neither."""
    provider.say(Says(calls=(ADD,)), Says(calls=(ADD,)), THREE)
    assert [part.content for part in results(ask(provider, stream=stream)[0])] == [3, 3]
    provider.answers[:] = [Says(calls=(ADD, ADD)), THREE]
    with pytest.raises(UnexpectedModelBehavior, match=r"unique `tool_call_id` values; duplicate .*'c1'"):
        ask(provider, stream=stream)


@both
def test_ids_that_are_empty(provider: Provider, *, stream: bool) -> None:
    """pydantic-ai gives calls without an id one of its own, so that each is answered and the provider is content."""
    nameless = Called("", "add", ADD.arguments)
    provider.say(Says(calls=(nameless, nameless)), THREE)
    result, _ = ask(provider, stream=stream)
    assert [part.content for part in results(result)] == [3, 3]
    assert len({part.tool_call_id for part in results(result)} - {""}) == 2


@both
def test_empty_answers_are_not_taken_for_answers(provider: Provider, *, stream: bool) -> None:
    """pydantic-ai asks again, and gives up when nothing comes."""
    provider.say(Says(), Says(), Says())
    with pytest.raises(UnexpectedModelBehavior):
        ask(provider, stream=stream)
    assert len(provider.requests) > 1


def test_beyond_the_end_of_what_it_has_to_say(provider: Provider) -> None:
    """The test that forgot an answer is told so."""
    with pytest.raises(ModelHTTPError, match="has 0 answers and was asked for answer 1"):
        ask(provider, stream=False)


CALL = {"id": "x", "function": {"name": "add", "arguments": "{}"}}
USER = {"role": "user", "content": "go"}
RESULT = {"role": "tool", "tool_call_id": "x", "content": "3"}


def calling(*ids: str) -> dict[str, Any]:
    """Return an assistant's message with calls of these ids."""
    return {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": name} for name in ids]}


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([calling("x", "y"), RESULT], "did not have response messages: y"),
        ([calling("x"), USER, RESULT], "did not have response messages: x"),
        ([USER, RESULT], "must be a response to a preceeding message"),
        ([calling("x"), RESULT, {**RESULT, "tool_call_id": "z"}], "'z' not found"),
        ([calling("x"), RESULT, RESULT], "Duplicate value"),
        ([calling("x", "x"), RESULT], "Duplicate value"),
        ([calling("")], "empty string"),
    ],
)
def test_what_the_provider_refuses(messages: list[dict[str, Any]], wrong: str) -> None:
    """Each way of not pairing calls and results has OpenAI's own words."""
    assert wrong in (refusal([USER, *messages]) or "")


def test_what_the_provider_takes() -> None:
    """Pairs in any order, and the same id again in a later answer."""
    y = {**RESULT, "tool_call_id": "y"}
    assert refusal([USER, calling("x", "y"), y, RESULT, USER, calling("x"), RESULT]) is None


def test_an_unpaired_call_is_refused_over_http(provider: Provider) -> None:
    """The provider's 400 reaches the caller of a model that is sent an open call."""
    provider.say(THREE, THREE, THREE)
    asked: list[ModelMessage] = [
        ModelRequest([UserPromptPart("go")]),
        ModelResponse([TextPart("well"), ToolCallPart("add", "{}", "x")]),
        ModelRequest([UserPromptPart("and?")]),
    ]

    async def send() -> None:
        async with provider.model() as model:
            await model.request(asked, None, ModelRequestParameters())

    with pytest.raises(ModelHTTPError, match="did not have response messages: x") as refused:
        asyncio.run(send())
    assert refused.value.status_code == 400
