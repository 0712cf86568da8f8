"""The window: which of a conversation's messages a model call sends, when they are too many.

What is kept, whatever the room: the pinned messages (the first prompt, the last thing a person said, whatever else the
driver pins) without the results in them, and the newest answer with what followed it, so that an open call and a pending
approval are always there. Before those the window goes back as far as it has room, in **units**: an answer and all that
follows it up to the next answer. Calls and results therefore stay together, and no window begins with a result.

If everything fits, everything is sent as it is. If not, big tool outputs in the older half of the room are cut first, which
makes room for older units; the cut says how long the output was and in which message it is whole. Where the window begins,
and where cutting begins, moves in jumps: a provider's cache of the prompt lives from the beginning being the same as in the
last call.

The messages are taken newest first from an iterator, and no more of them than the window needs (and one unit), so a window
over 5,000 messages costs no more than one over 50. The same messages always give the same window.

**Tokens** are counted by `tokens_of`, which counts rather too many: what is wanted is a window that surely fits. A caller
with a real tokenizer may give its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    ToolReturnPart,
    UserPromptPart,
    is_multi_modal_content,
)
from pydantic_core import to_json

from torpor.agent.transcript import is_result
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Tokens = Callable[[ModelMessage], int]

LETTERS_A_TOKEN = 3
"""Bytes of UTF-8 that count as one token. English has four or five, code three to four, other scripts two to three."""
MESSAGE_TOKENS = 4
"""What a provider adds around a message, and around a part."""
IMAGE_TOKENS = 1_600
"""The most that providers count for an image at their usual sizes."""
UNSEEN_TOKENS = 8_000
"""A file of which only a reference is known, and which is no image."""
BYTES_A_TOKEN = {"audio": 200, "video": 1_000}
"""How many bytes of recorded sound or pictures count as one token."""
DOCUMENT_BYTES_A_TOKEN = 12
"""The same for documents: a page has some 3,000 tokens and 36 KB or more."""

STEPS = (16, 8, 4, 2)
"""The window begins at a message whose number is a multiple of one of these, the first that costs little room."""
_MOST_GIVEN_UP = 4
"""That is: a quarter of what would have fitted."""
_LEAST_CUT_TOKENS = 32
_NOTE_TOKENS = 32


# Tokens --------------------------------------------------------------------------------------------------------------
def tokens_of(message: ModelMessage) -> int:
    """Return how many tokens a message has at most, as a provider counts it.

    Not counted: instructions and the tools' definitions, which stand once in a call whatever its messages.
    """
    return MESSAGE_TOKENS + sum(MESSAGE_TOKENS + part_tokens(part) for part in message.parts)


def part_tokens(part: Any) -> int:
    """Return how many tokens a part has at most, without what is around it."""
    name = getattr(part, "tool_name", None) or ""
    if (args := getattr(part, "args", None)) is not None:
        return text_tokens(name) + content_tokens(args)
    content = getattr(part, "content", None)
    counted = text_tokens(name) + (content_tokens(content) if content is not None else 0)
    counted += text_tokens(getattr(part, "signature", None) or "")
    if content is None and (details := getattr(part, "provider_details", None)):
        counted += content_tokens(details)  # a provider's own compaction: all of it is in there
    return counted


def content_tokens(content: Any) -> int:
    """Return how many tokens some content has: text, files, or values that are sent as JSON."""
    if isinstance(content, str):
        return text_tokens(content)
    if is_multi_modal_content(content):
        return file_tokens(content)
    if isinstance(content, list | tuple):
        return 2 + sum(1 + content_tokens(item) for item in content)
    if isinstance(getattr(content, "kind", None), str) and isinstance(getattr(content, "content", None), str):
        return text_tokens(content.content)  # a TextContent: its metadata is not sent
    try:
        sent: bytes | str = to_json(content, fallback=repr, bytes_mode="base64")
    except ValueError:  # it cannot be sent as it is: whoever counts it is not the one to say so
        sent = repr(content)
    return -(-len(sent) // LETTERS_A_TOKEN)


def text_tokens(text: str) -> int:
    """Return how many tokens a text has at most."""
    letters = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-letters // LETTERS_A_TOKEN)


def file_tokens(file: Any) -> int:
    """Return how many tokens a file has, roughly: providers count pixels, seconds and pages."""
    kind, _, form = _media_type(file).partition("/")
    if kind == "image":
        return IMAGE_TOKENS
    if not isinstance(file, BinaryContent):
        return UNSEEN_TOKENS
    if kind == "text" or form.endswith(("json", "xml", "yaml")):
        return -(-len(file.data) // LETTERS_A_TOKEN)
    return 1 + len(file.data) // BYTES_A_TOKEN.get(kind, DOCUMENT_BYTES_A_TOKEN)


def _media_type(file: Any) -> str:
    """Return a file's media type; one that cannot be told from its address is of no kind."""
    try:
        return str(file.media_type)
    except ValueError:
        return str(file.kind).removesuffix("-url") + "/"


# Cutting -------------------------------------------------------------------------------------------------------------
def cut(message: ModelMessage, number: int, most_tokens: int) -> ModelMessage:
    """Return a message whose big tool outputs are cut to about `most_tokens`: their beginning, a reference, their end.

    Results that pydantic-ai itself reads again (of its tool search and the like) stay whole. A message without a big
    output is the very object it was.
    """
    if not isinstance(message, ModelRequest):
        return message
    parts = [_cut_part(part, number, most_tokens) for part in message.parts]
    same = all(one is other for one, other in zip(parts, message.parts, strict=True))
    return message if same else replace(message, parts=parts)


def _cut_part(part: Any, number: int, most_tokens: int) -> Any:
    if not isinstance(part, ToolReturnPart) or part.tool_kind is not None or part_tokens(part) <= most_tokens:
        return part
    files = [_absent(file, number) for file in part.files]
    text = part.model_response_str(wrap_if_error=False)
    kept = shortened(text, number, most_tokens) if text_tokens(text) > most_tokens else text
    return replace(part, content="\n".join([kept, *files] if kept else files))


def shortened(text: str, number: int, most_tokens: int) -> str:
    """Return the beginning and the end of a text, and between them how long it was and in which message it is whole."""
    reference = f"[cut: {len(text):,} letters; message {number}]"
    room = max(0, (most_tokens - text_tokens(reference)) * LETTERS_A_TOKEN - 2)  # and two ends of lines
    if not text.isascii():
        room //= 4  # so that the widest letters fit
    end = room // 4
    return f"{text[: room - end]}\n{reference}\n{text[-end:] if end else ''}".strip("\n")


def _absent(file: Any, number: int) -> str:
    size = f", {len(file.data):,} bytes" if isinstance(file, BinaryContent) else ""
    return f"[cut: {_media_type(file)}{size}; message {number}]"


# The window ----------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Unit:
    """An answer and what follows it, up to the next answer. Or what stands before the first answer."""

    number: int
    """The first message's number in the transcript."""
    messages: list[ModelMessage]
    tokens: int

    def cut(self, most_tokens: int, tokens: Tokens) -> _Unit:
        """Return it with its big outputs cut."""
        messages = [cut(message, self.number + n, most_tokens) for n, message in enumerate(self.messages)]
        return _Unit(self.number, messages, sum(map(tokens, messages)))


@dataclass(frozen=True, slots=True)
class Window:
    """How much of a conversation a call may send: its share for messages, and for one tool output that is no longer new."""

    most_tokens: int
    cut_output_tokens: int = 1_000

    def __post_init__(self) -> None:
        """Refuse sizes in which nothing fits."""
        sizes: tuple[object, ...] = (self.most_tokens, self.cut_output_tokens)
        if any(isinstance(size, bool) or not isinstance(size, int) for size in sizes):
            message = f"a window of {sizes[0]!r} tokens with outputs of {sizes[1]!r} is none"
            raise UsageError(message, hint="whole numbers of tokens: Window(20_000)")
        if self.most_tokens < 1 or self.cut_output_tokens < _LEAST_CUT_TOKENS:
            message = f"a window of {self.most_tokens} tokens with outputs of {self.cut_output_tokens} shows nothing"
            raise UsageError(message, hint=f"a window has thousands of tokens, an output {_LEAST_CUT_TOKENS} or more")

    def of(
        self,
        newest_first: Iterable[ModelMessage],
        count: int,
        *,
        pinned: Mapping[int, ModelMessage] | None = None,
        tokens: Tokens = tokens_of,
    ) -> list[ModelMessage]:
        """Return what a call sends, oldest first.

        `count` is how many messages the conversation has, so the newest has the number `count - 1`; the iterator may end
        before it comes to the first. `pinned` are messages that must be there, by number. Calls and results must be paired
        already (`transcript.answered`). What must be there may be more than `most_tokens`: then the newest outputs are cut
        too, and if that is not enough the window is too big, which `weight` tells.
        """
        held = {number: kept for number, one in sorted((pinned or {}).items()) if (kept := prompts_of(one)).parts}
        room = self.most_tokens - sum(map(tokens, held.values())) - _NOTE_TOKENS
        units = self._units(newest_first, count, room, tokens)
        if not units:
            return list(held.values())
        first = units[-1].number
        tail = [message for unit in reversed(units) for message in unit.messages]
        if first == 0:
            return tail
        front = [part for number, one in held.items() if number < first for part in one.parts]
        moment = next(message.timestamp for message in tail if isinstance(message, ModelResponse))  # never the clock's
        if missing := first - sum(number < first for number in held):
            front.append(UserPromptPart(f"[cut: {missing:,} earlier messages]", timestamp=moment))
        return [ModelRequest(parts=front, timestamp=moment), *tail]

    def _units(self, newest_first: Iterable[ModelMessage], count: int, room: int, tokens: Tokens) -> list[_Unit]:
        """Return the units that are sent, newest first: whole ones if they all fit, else cut and aligned."""
        coming = _units(newest_first, count, tokens)
        newest = next(coming, None)
        if newest is None:
            return []
        units = [self._squeezed(newest, room, tokens)]
        spent = units[0].tokens
        too_much: _Unit | None = None
        for unit in coming:
            if spent + unit.tokens > room:
                too_much = unit
                break
            units.append(unit)
            spent += unit.tokens
        if too_much is not None:
            units = self._tight(units, too_much, coming, room, tokens)
        return _aligned(units) if units[-1].number else units

    def _tight(
        self, whole: list[_Unit], unit: _Unit | None, coming: Iterator[_Unit], room: int, tokens: Tokens
    ) -> list[_Unit]:
        """Cut the outputs in the older half of the room, and go on with units so cut for as long as they fit."""
        fresh, spent = [whole[0]], whole[0].tokens
        for one in whole[1:]:
            if spent + one.tokens > room // 2:
                break
            fresh.append(one)
            spent += one.tokens
        fresh = _aligned(fresh)
        units = fresh + [one.cut(self.cut_output_tokens, tokens) for one in whole[len(fresh) :]]
        spent = sum(one.tokens for one in units)
        while unit is not None:
            shorter = unit.cut(self.cut_output_tokens, tokens)
            spent += shorter.tokens
            if spent > room:
                break
            units.append(shorter)
            unit = next(coming, None)
        return units

    def _squeezed(self, newest: _Unit, room: int, tokens: Tokens) -> _Unit:
        """Return the newest unit: whole, or with its outputs cut for as long as that helps and it does not fit."""
        most = max(self.cut_output_tokens, room // 2)
        unit = newest
        while unit.tokens > room and most >= _LEAST_CUT_TOKENS:
            unit = newest.cut(most, tokens)
            most //= 2
        return unit


def weight(messages: Iterable[ModelMessage], tokens: Tokens = tokens_of) -> int:
    """Return how many tokens messages have."""
    return sum(map(tokens, messages))


def prompts_of(message: ModelMessage) -> ModelRequest:
    """Return what a pinned message keeps: all that does not answer something that may not be there."""
    if not isinstance(message, ModelRequest):
        return ModelRequest(parts=[])
    parts = [part for part in message.parts if not is_result(part) and not isinstance(part, RetryFeedbackPart)]
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)


def _units(newest_first: Iterable[ModelMessage], count: int, tokens: Tokens) -> Iterator[_Unit]:
    """Group messages, newest first, into units. What an iterator breaks off in the middle of is left out."""
    number = count
    after: list[ModelMessage] = []
    for message in newest_first:
        number -= 1
        after.append(message)
        if isinstance(message, ModelResponse):
            yield _Unit(number, after[::-1], sum(map(tokens, after)))
            after = []
    if after and number == 0:
        yield _Unit(0, after[::-1], sum(map(tokens, after)))


def _aligned(units: list[_Unit]) -> list[_Unit]:
    """Leave out some of the oldest units so that the first one stays the same for several calls, if that costs little."""
    total = sum(unit.tokens for unit in units)
    for step in STEPS:
        first = -(-units[-1].number // step) * step
        kept = [unit for unit in units if unit.number >= first]
        if kept and sum(unit.tokens for unit in kept) * _MOST_GIVEN_UP >= total * (_MOST_GIVEN_UP - 1):
            return kept
    return units
