"""A model that says what a test tells it to: `Agent(Script(call("search", query="x"), "Found it."))`.

**Which answer.** Nothing is counted in the script itself: the place in it is read from the messages, so that a run that was
resumed elsewhere, by a new process with a new script, gets the answer that comes next. Each answer carries its place
(`provider_response_id`), and the next place is the one after the last answer of the script that is in the messages; answers
of others count one each. So a window that leaves old messages out changes nothing. Without an answer of the script in
the messages it is their number of answers.

**Trouble.** An exception is no answer: it leaves nothing in the messages. Exceptions stand before the answer that follows
them, and each is raised once in each conversation (as pydantic-ai numbers them, `conversation_id`).
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from torpor.errors import UsageError
from torpor.testing.pairing import unpaired
from torpor.testing.telling import Telling, part_events, pieces_of, take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelResponseStreamEvent
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings

USAGE = RequestUsage(input_tokens=100, output_tokens=20)
"""What an answer costs unless a script says otherwise: the same for whole and streamed answers, easy to add up."""


@dataclass(frozen=True)
class Call:
    """A call of a tool in a script; `call(...)` makes one. Its id is made of its place: `call_<answer>_<position>`."""

    tool: str
    args: dict[str, Any]


def call(tool: str, /, **args: Any) -> Call:
    """Say that the model calls a tool. For a strange id or broken arguments give a `ToolCallPart` of pydantic-ai."""
    return Call(tool, args)


Pause: TypeAlias = "Callable[[], Any]"
Piece: TypeAlias = "str | Call | ModelResponsePart | BaseException | Pause"
Answer: TypeAlias = "Piece | Sequence[Piece] | ModelResponse | Callable[[list[ModelMessage], AgentInfo], Any]"


@dataclass(frozen=True)
class Asked:
    """One request that a script was sent."""

    number: int
    """The place in the script that answers it, from 0."""
    messages: list[ModelMessage]
    agent: AgentInfo
    """Tools, instructions and settings, as pydantic-ai's FunctionModel gets them."""
    streamed: bool

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model was offered."""
        return [tool.name for tool in (*self.agent.function_tools, *self.agent.output_tools)]


@dataclass
class _Told:
    """An answer with its pauses: `steps` say in order what a stream does."""

    response: ModelResponse
    steps: list[ModelResponseStreamEvent | Pause | BaseException]


class Script(FunctionModel):
    """A pydantic-ai model whose n-th answer is the n-th argument. See the top of this file.

    An answer is a text, a `call(...)`, a part or whole response of pydantic-ai, a list of these, or a function of the messages
    and the `AgentInfo` that returns an answer (or a coroutine of one). In a list an exception breaks the answer off where
    it stands, and a function without parameters is called (and awaited) where it stands: `["Let me ", event.wait, "see"]`.
    """

    def __init__(
        self,
        *answers: Answer,
        usage: RequestUsage | None = None,
        stream_words: bool = True,
        strict: bool = True,
        model: str = "script",
    ) -> None:
        """`usage` is what each answer costs; `stream_words` tells texts word by word.

        `strict` refuses messages with unpaired calls and results, as providers do (ModelHTTPError, 400). `model` is the name
        under which usage is priced, `openai:gpt-5-mini` for example.
        """
        provider, _, name = model.rpartition(":")
        super().__init__(self._never, stream_function=self._never_streamed, model_name=name)
        self._provider_word = provider or "script"
        self._usage = USAGE if usage is None else usage
        self._by_word = stream_words
        self._strict = strict
        self._troubles: list[list[Answer]] = [[]]
        self._answers: list[Answer] = []
        for answer in answers:
            if _is_trouble(answer):
                self._troubles[-1].append(answer)
            else:
                self._answers.append(answer)
                self._troubles.append([])
        self._raised: Counter[tuple[str | None, int]] = Counter()
        self.requests: list[Asked] = []
        """Every request, in order, also those that were refused or met an exception."""

    @property
    def system(self) -> str:
        """The provider's name."""
        return self._provider_word

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer at once. Raises what the script says, UsageError beyond its end."""
        told = await self._tell(messages, model_settings, model_request_parameters, streamed=False)
        for step in told.steps:
            await take(step)
        return told.response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        """Answer piece by piece. Raises as `request`; what stands within an answer is raised where it stands."""
        del run_context
        told = await self._tell(messages, model_settings, model_request_parameters, streamed=True)
        yield Telling(told.response, told.steps, model_request_parameters)

    @staticmethod
    def _never(messages: list[ModelMessage], agent: AgentInfo) -> ModelResponse:
        message = f"a script answers by itself: {len(messages)} messages, {agent}"
        raise AssertionError(message)

    async def _never_streamed(self, messages: list[ModelMessage], agent: AgentInfo) -> AsyncIterator[str]:
        yield self._never(messages, agent).model_name or ""

    async def _tell(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        *,
        streamed: bool,
    ) -> _Told:
        settings, parameters = self.prepare_request(settings, parameters)
        number = self._place(messages)
        agent = AgentInfo(
            function_tools=parameters.declared_function_tools,
            allow_text_output=parameters.allow_text_output,
            output_tools=parameters.output_tools,
            model_settings=settings,
            model_request_parameters=parameters,
            instructions=InstructionPart.join(parameters.instruction_parts or []),
        )
        self.requests.append(Asked(number, [_kept(message) for message in messages], agent, streamed))
        if self._strict and (wrong := unpaired(messages)):
            raise ModelHTTPError(400, self.model_name, {"message": wrong, "type": "invalid_request_error"})
        answer = self._next(number, messages)
        while callable(answer) or inspect.isawaitable(answer):
            answer = await answer if inspect.isawaitable(answer) else answer(messages, agent)
        return self._told(number, answer)

    def _place(self, messages: Sequence[ModelMessage]) -> int:
        responses = [message for message in messages if isinstance(message, ModelResponse)]
        for after, response in enumerate(reversed(responses)):
            name, _, number = (response.provider_response_id or "").rpartition("#")
            if name == self.model_name and number.isdecimal():
                return int(number) + 1 + after
        return len(responses)

    def _next(self, number: int, messages: Sequence[ModelMessage]) -> Any:
        if number < len(self._troubles):
            place = (messages[-1].conversation_id if messages else None, number)
            if self._raised[place] < len(self._troubles[number]):
                self._raised[place] += 1
                return self._troubles[number][self._raised[place] - 1]
        if number >= len(self._answers):
            raise UsageError(
                f"the script has {len(self._answers)} answers and was asked for answer {number + 1}",
                hint="give Script one more answer, or look at script.requests[-1].messages for why it was asked again",
            )
        return self._answers[number]

    def _told(self, number: int, answer: Any) -> _Told:
        whole = answer if isinstance(answer, ModelResponse) else ModelResponse(parts=[])
        listed = isinstance(answer, list | tuple)
        pieces: list[Any] = list(whole.parts) if whole is answer else [*answer] if listed else [answer]
        parts: list[ModelResponsePart] = []
        steps: list[Any] = []
        positions = count()
        text: list[Any] = []  # a text that is under way, with the pauses in it
        for piece in pieces:
            if isinstance(piece, str) or (text and callable(piece)):
                text.append(piece)
                continue
            self._close(text, parts, steps)
            if isinstance(piece, BaseException) or callable(piece):
                steps.append(piece)
                continue
            part = _part(piece, number, positions)
            steps.extend(part_events(len(parts), part, pieces_of(part, by_word=self._by_word)))
            parts.append(part)
        self._close(text, parts, steps)
        calls = any(isinstance(part, ToolCallPart) for part in parts)
        response = replace(
            whole,
            parts=parts,
            usage=whole.usage if whole.usage.has_values() else copy(self._usage),
            model_name=self.model_name,
            provider_name=self.system,
            provider_response_id=f"{self.model_name}#{number}",
            finish_reason=whole.finish_reason or ("tool_call" if calls else "stop"),
        )
        return _Told(response, steps)

    def _close(self, text: list[Any], parts: list[ModelResponsePart], steps: list[Any]) -> None:
        """End the text that is under way: its strings are one part, however many pauses are between them."""
        if not text:
            return
        part = TextPart("".join(piece for piece in text if isinstance(piece, str)))
        pieces = [one for piece in text for one in (self._pieces(piece) if isinstance(piece, str) else [piece])]
        events = part_events(len(parts), part, [piece for piece in pieces if isinstance(piece, str)])
        steps.append(next(events))
        steps.extend(next(events) if isinstance(piece, str) else piece for piece in pieces)
        parts.append(part)
        text.clear()

    def _pieces(self, text: str) -> list[str]:
        return pieces_of(TextPart(text), by_word=self._by_word)


def _is_trouble(answer: Answer) -> bool:
    """Whether an answer ends in an exception, so that nothing of it gets into the messages."""
    pieces: Sequence[Any] = answer if isinstance(answer, list | tuple) else [answer]
    return any(isinstance(piece, BaseException) for piece in pieces)


def _part(piece: Any, number: int, positions: Iterator[int]) -> ModelResponsePart:
    if isinstance(piece, Call):
        return ToolCallPart(piece.tool, json.dumps(piece.args), f"call_{number}_{next(positions)}")
    if not hasattr(piece, "part_kind"):
        raise UsageError(
            f"a script cannot say {piece!r}",
            hint='an answer is a text, call("tool", ...), a part of pydantic-ai, an exception, a list of these, or a function',
        )
    if isinstance(piece, ToolCallPart):
        next(positions)
    part: ModelResponsePart = copy(piece)
    return part


def _kept(message: ModelMessage) -> ModelMessage:
    """Return a copy that later changes of the message do not reach; parts are never changed."""
    if isinstance(message, ModelRequest):
        return replace(message, parts=list(message.parts))
    return replace(message, parts=list(message.parts))
