"""An OpenAI-compatible provider for tests: chat completions over real HTTP, whole and streamed, with every known misbehaviour.

    provider.say(Says(calls=(Called("c1", "add", '{"a": 1}'),)), Refuses(429, retry_after="7"), Says("three"))

An answer's place is the number of assistant messages in the request, as a provider that keeps nothing would have it. What
fails is no answer: it stands before the answer that follows, and happens once.

It is a plain ASGI application in a server of its own thread, on a port that the machine gives.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import uvicorn
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.agent.provider.rules import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping

    Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

MODEL = "gpt-5-mini"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
HEAD = {"created": 1_700_000_000, "model": MODEL}


@dataclass(frozen=True)
class Called:
    """One call of a tool: any id, any arguments, also what is no JSON."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Says:
    """An answer: a text, calls, both, or neither."""

    text: str = ""
    calls: tuple[Called, ...] = ()

    @property
    def finish(self) -> str:
        """Why it ended."""
        return "tool_calls" if self.calls else "stop"


@dataclass(frozen=True)
class Refuses:
    """An HTTP error."""

    status: int
    message: str = "no"
    retry_after: str = ""


@dataclass(frozen=True)
class Cuts:
    """An answer whose connection breaks after so many bytes of the body or parts of the stream."""

    answer: Says
    after: int = 1


@dataclass
class Gate:
    """A place in a stream: it is reached, and nothing goes on before it is opened."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Paced:
    """A streamed answer that stands still at its gates, each after so many words, and breaks after `cut` of them."""

    answer: Says
    gates: dict[int, Gate] = field(default_factory=dict)
    cut: int | None = None


Told: TypeAlias = "Says | Refuses | Cuts | Paced"


@dataclass
class Provider:
    """The provider: what it will say, and what it was asked."""

    port: int
    troubles: list[list[Refuses | Cuts | Paced]] = field(default_factory=lambda: [[]])
    answers: list[Says] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """The body of every request, in order; their number is the number of calls."""
    keys: list[str] = field(default_factory=list)
    """The `Authorization` of every request."""

    @property
    def url(self) -> str:
        """What a client takes as its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def say(self, *told: Told) -> None:
        """Say what is answered, after what was said before."""
        for one in told:
            if isinstance(one, Says):
                self.answers.append(one)
                self.troubles.append([])
            else:
                self.troubles[-1].append(one)

    @asynccontextmanager
    async def model(self, *, retries: int = 0) -> AsyncIterator[OpenAIChatModel]:
        """Give pydantic-ai's own model of this provider, whose client tries again so often by itself."""
        async with AsyncOpenAI(base_url=self.url, api_key="sk-test", max_retries=retries) as client:
            yield OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))

    def _next(self, body: dict[str, Any]) -> Told:
        if wrong := refusal(body["messages"]):
            return Refuses(400, wrong)
        place: int = sum(message["role"] == "assistant" for message in body["messages"])
        if place < len(self.troubles) and self.troubles[place]:
            return self.troubles[place].pop(0)
        if place >= len(self.answers):
            return Refuses(400, f"the test has {len(self.answers)} answers and was asked for answer {place + 1}")
        return self.answers[place]

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        assert (scope["type"], scope["path"]) == ("http", "/v1/chat/completions"), scope
        sent = b""
        while True:
            message = await receive()
            sent += message.get("body", b"")
            if not message.get("more_body"):
                break
        body = json.loads(sent)
        self.requests.append(body)
        self.keys.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        told = self._next(body)
        if isinstance(told, Refuses):
            await _refuse(send, told)
        elif isinstance(told, Paced):
            await _pace(send, told)
        elif body.get("stream"):
            await _stream(send, told, usage=body.get("stream_options", {}).get("include_usage", False))
        else:
            await _whole(send, told)


async def _start(send: Send, status: int, *headers: tuple[str, str]) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _refuse(send: Send, told: Refuses) -> None:
    error = {"message": told.message, "type": "invalid_request_error", "param": None, "code": None}
    more = [("retry-after", told.retry_after)] if told.retry_after else []
    await _start(send, told.status, ("content-type", "application/json"), *more)
    await send({"type": "http.response.body", "body": json.dumps({"error": error}).encode()})


def _completion(answer: Says) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [_call(one) for one in answer.calls]
    choice = {"index": 0, "finish_reason": answer.finish, "message": message}
    whole = {"id": "answer", "object": "chat.completion", **HEAD, "usage": USAGE, "choices": [choice]}
    return json.dumps(whole).encode()


def _call(one: Called) -> dict[str, Any]:
    return {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}


async def _whole(send: Send, told: Says | Cuts) -> None:
    answer = told if isinstance(told, Says) else told.answer
    body = _completion(answer)
    await _start(send, 200, ("content-type", "application/json"), ("content-length", str(len(body))))
    if isinstance(told, Cuts):  # the server closes the connection of an application that leaves early
        await send({"type": "http.response.body", "body": body[: told.after], "more_body": True})
        return
    await send({"type": "http.response.body", "body": body})


def _deltas(answer: Says) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for word in answer.text.split(" ") if answer.text else ():
        yield {"content": f"{word} "}
    for index, one in enumerate(answer.calls):
        half = len(one.arguments) // 2
        start = {"name": one.name, "arguments": one.arguments[:half]}
        yield {"tool_calls": [{"index": index, "id": one.id, "type": "function", "function": start}]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": one.arguments[half:]}}]}


async def _stream(send: Send, told: Says | Cuts, *, usage: bool) -> None:
    answer = told if isinstance(told, Says) else told.answer
    head = {"id": "answer", "object": "chat.completion.chunk", **HEAD}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in _deltas(answer)
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish}]})
    if usage:
        chunks.append({**head, "choices": [], "usage": USAGE})
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    await _start(send, 200, ("content-type", "text/event-stream"))
    for line in lines if isinstance(told, Says) else lines[: told.after]:
        await send({"type": "http.response.body", "body": line, "more_body": True})
    if isinstance(told, Says):
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _pace(send: Send, told: Paced) -> None:
    """Send word by word. Whoever asked may be gone; the gates are reached all the same."""
    head = {"id": "answer", "object": "chat.completion.chunk", **HEAD}
    await _start(send, 200, ("content-type", "text/event-stream"))
    words = 0
    for delta in _deltas(told.answer):
        words += bool(delta.get("content"))
        chunk = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        await send({"type": "http.response.body", "body": f"data: {json.dumps(chunk)}\n\n".encode(), "more_body": True})
        if delta.get("content") and (gate := told.gates.get(words)) is not None:
            gate.reached.set()
            await asyncio.to_thread(gate.opened.wait)
        if words == told.cut:
            return  # the server closes the connection of an application that leaves early


@contextmanager
def serving() -> Iterator[Provider]:
    """Give a provider that listens until the block is left."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        provider = Provider(listening.getsockname()[1])

        server = uvicorn.Server(uvicorn.Config(provider, log_level="critical", lifespan="off"))
        listening.listen()  # from here on a client's connection waits for the server, however slowly that starts
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), name="provider")
        thread.start()
        try:
            yield provider
        finally:
            server.should_exit = True
            thread.join()
