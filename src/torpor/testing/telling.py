"""How a rehearsed answer is told: whole to who asks for it whole, piece by piece to who asks for a stream.

Both ways end in the same `ModelResponse`, to the letter, so that a test may turn streaming on and off and compare.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import CompletedStreamedResponse
from pydantic_ai.usage import RequestUsage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence

    from pydantic_ai.messages import ModelResponse, ModelResponsePart, ModelResponseState, ModelResponseStreamEvent
    from pydantic_ai.models import ModelRequestParameters


def words(text: str) -> list[str]:
    """Return a text word by word, each with the space that follows it: joined, they are the text."""
    return re.findall(r"\S*\s+|\S+", text)


def content_of(part: ModelResponsePart) -> str | None:
    """Return the text that a stream tells piece by piece; None for a part that comes at once."""
    if isinstance(part, TextPart | ThinkingPart):
        return part.content
    if isinstance(part, ToolCallPart) and isinstance(part.args, str):
        return part.args
    return None


def pieces_of(part: ModelResponsePart, *, by_word: bool) -> list[str]:
    """Return the pieces in which a part is told; none if it comes at once."""
    content = content_of(part)
    if not content:
        return []
    return words(content) if by_word else [content]


def part_events(index: int, part: ModelResponsePart, pieces: Sequence[str]) -> Iterator[ModelResponseStreamEvent]:
    """Yield the events of one part: its start, then a change for each piece."""
    if not pieces:
        yield PartStartEvent(index=index, part=part)
    elif isinstance(part, TextPart):
        yield PartStartEvent(index=index, part=replace(part, content=""))
        yield from (PartDeltaEvent(index=index, delta=TextPartDelta(piece)) for piece in pieces)
    elif isinstance(part, ThinkingPart):
        yield PartStartEvent(index=index, part=replace(part, content=""))
        yield from (PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=piece)) for piece in pieces)
    elif isinstance(part, ToolCallPart):
        yield PartStartEvent(index=index, part=replace(part, args=""))
        yield from (PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=piece)) for piece in pieces)


class Telling(CompletedStreamedResponse):
    """An answer on its way. A step is an event of the stream, an exception that breaks it off, or a pause to wait for."""

    def __init__(self, response: ModelResponse, steps: Sequence[Any], parameters: ModelRequestParameters) -> None:
        """Have told nothing yet."""
        super().__init__(response, model_request_parameters=parameters)
        self._steps = steps
        self._over = False
        self.provider_response_id = response.provider_response_id
        self.finish_reason = response.finish_reason

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        for step in self._steps:
            if self.cancelled:
                return
            if isinstance(step, BaseException) or callable(step):
                await take(step)
            else:
                self._parts_manager.apply_event(step)
                yield step
        self._over = True

    def get(self) -> ModelResponse:
        """Return the answer, or what was told of it so far."""
        if self._over:
            return super().get()
        state: ModelResponseState = "interrupted" if self.cancelled else "incomplete"
        return replace(self.response, parts=self._parts_manager.get_parts(), usage=self.usage, state=state)

    @property
    def usage(self) -> RequestUsage:
        """The usage comes with the last piece, as from a provider: an answer that was cut says none."""
        return self.response.usage if self._over else RequestUsage()


async def take(step: Any) -> None:
    """Raise or pause where an answer says so; the events of a stream are nobody's business here."""
    if isinstance(step, BaseException):
        raise step
    if callable(step):
        result: Awaitable[Any] | Any = step()
        if inspect.isawaitable(result):
            await result
