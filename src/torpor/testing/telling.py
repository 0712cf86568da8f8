"""How a rehearsed answer is told: whole to who asks for it whole, piece by piece to who asks for a stream.

Both ways end in the same `ModelResponse`, to the letter, so that a test may turn streaming on and off and compare.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_ai.messages import ModelResponsePart, ModelResponseStreamEvent


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
