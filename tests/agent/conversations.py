"""Messages of every kind and whole conversations for the tests of an agent's room, and the judge that providers are."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    BinaryImage,
    CachePoint,
    CapabilityLoadDeltaPart,
    Citation,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    InstructionBaselinePart,
    InstructionDeltaPart,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestAttempt,
    ModelResponse,
    ModelSettingsDeltaPart,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
    VideoUrl,
    WebCitationSource,
    WorkspaceRef,
)
from pydantic_ai.usage import RequestUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

drawn = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How tests draw: a slow machine fails nothing."""
MOMENT = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)

texts = st.text(st.sampled_from('a \0ü水\U0001f600$\\"'), max_size=6)
moments = st.datetimes(timezones=st.just(UTC))
maybe = texts.map(lambda text: text or None)
atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
json_values = st.recursive(
    atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=4
)
objects = st.dictionaries(texts, json_values, max_size=3)
details = st.none() | objects
pictures = st.binary(max_size=8).map(lambda content: BinaryImage(content, media_type="image/png"))
sounds = st.binary(max_size=8).map(lambda content: BinaryContent(content, media_type="audio/wav"))
files = (
    pictures
    | sounds
    | st.builds(ImageUrl, st.just("https://example.org/a.png"), force_download=st.booleans(), vendor_metadata=details)
    | st.builds(AudioUrl, st.just("https://example.org/a.mp3"))
    | st.builds(DocumentUrl, st.just("https://example.org/a"), media_type=st.just("application/pdf"))
    | st.builds(VideoUrl, st.just("https://example.org/a.mp4"))
    | st.builds(UploadedFile, st.just("file-1"), st.sampled_from(["openai", "anthropic"]), vendor_metadata=details)
)
contents = (
    texts | files | st.builds(TextContent, texts, metadata=json_values) | st.builds(CachePoint, ttl=st.just("1h"))
)
names = st.sampled_from(["read", "write", "deploy"])
ids = st.sampled_from(["", "call_0", "call_1", "c2"])
arguments = st.none() | st.just({"page": 1}) | st.sampled_from(['{"a": 1}', '{"a": ', "not json", ""])
results = json_values | files | st.lists(files | texts, max_size=3) | st.dictionaries(texts, files, max_size=2)
retries = st.none() | st.builds(
    RetryInfo, st.sampled_from(["validation_error", "model_retry"]), attempt=st.none() | st.integers(1, 3)
)
outcomes = st.sampled_from(["success", "failed", "denied", "interrupted", "retried"])
instructions = st.builds(
    InstructionPart, texts, dynamic=st.booleans(), on_change=st.sampled_from(["rewrite", "append"]), name=st.just("who")
)

request_parts = st.one_of(
    st.builds(SystemPromptPart, texts, timestamp=moments, dynamic_ref=maybe, metadata=details),
    st.builds(UserPromptPart, texts | st.lists(contents, max_size=3), timestamp=moments),
    st.builds(SpeechPart, speaker=st.just("user"), transcript=maybe, audio=st.none() | sounds),
    st.builds(
        ToolReturnPart, names, results, ids, metadata=json_values, timestamp=moments, outcome=outcomes, retry=retries
    ),
    st.builds(
        RetryFeedbackPart,
        texts,
        retry=st.builds(RetryInfo, st.sampled_from(["no_output", "model_retry"])),
        timestamp=moments,
    ),
    st.builds(ToolAvailabilityDeltaPart, tools_added=st.lists(names, max_size=2), tool_call_id=maybe),
    st.builds(CapabilityLoadDeltaPart, loaded=st.lists(names, max_size=2)),
    st.builds(ModelSettingsDeltaPart, settings=st.just({"thinking": "high"}), top_level=st.booleans()),
    st.builds(InstructionDeltaPart, id=st.none(), content=st.none() | texts),
    st.builds(InstructionBaselinePart, instructions=st.lists(instructions, max_size=2)),
    st.builds(CompactionPart, texts, metadata=details),
)
response_parts = st.one_of(
    st.builds(
        TextPart,
        texts,
        id=maybe,
        provider_name=maybe,
        provider_details=details,
        citations=st.none() | st.just([Citation([WebCitationSource("https://example.org")])]),
    ),
    st.builds(ThinkingPart, texts, id=maybe, signature=maybe, provider_name=maybe, provider_details=details),
    st.builds(ToolCallPart, names, arguments | objects, ids, id=maybe, provider_name=maybe, provider_details=details),
    st.builds(NativeToolCallPart, names, arguments, ids, provider_name=maybe),
    st.builds(NativeToolReturnPart, names, results, ids, timestamp=moments, provider_name=maybe),
    st.builds(CompactionPart, st.none() | texts, id=maybe, provider_name=maybe, provider_details=details),
    st.builds(FilePart, pictures, id=maybe),
    st.builds(SpeechPart, speaker=st.just("assistant"), transcript=maybe, audio=st.none() | sounds),
)
usages = st.builds(
    RequestUsage,
    input_tokens=st.integers(0, 9),
    output_tokens=st.integers(0, 9),
    details=st.dictionaries(names, st.integers(0, 3), max_size=2),
    cost=st.none() | st.just(Decimal("0.0012")) | st.just(Decimal(0)),
)
attempts = st.builds(
    ModelRequestAttempt,
    model_name=names,
    outcome=st.sampled_from(["error", "rejected"]),
    error=maybe,
    timestamp=moments,
    duration=st.timedeltas(timedelta(0), timedelta(hours=1)),
    usage=st.none() | usages,
)
requests = st.builds(
    ModelRequest,
    st.lists(request_parts, max_size=4),
    timestamp=st.none() | moments,
    instructions=maybe,
    run_id=maybe,
    conversation_id=maybe,
    metadata=details,
    state=st.sampled_from(["complete", "interrupted"]),
)
responses = st.builds(
    ModelResponse,
    st.lists(response_parts, max_size=4),
    usage=usages,
    model_name=maybe,
    timestamp=moments,
    provider_details=details,
    finish_reason=st.sampled_from([None, "stop", "tool_call"]),
    metadata=details,
    workspace_ref=st.none() | st.builds(WorkspaceRef, provider=names, id=names),
    failed_attempts=st.none() | st.lists(attempts, min_size=1, max_size=2),
    state=st.sampled_from(["complete", "interrupted"]),
)
messages = requests | responses


def asked(parts: Any) -> ModelRequest:
    """Return a request of these parts."""
    return ModelRequest(parts)


spoken = st.sampled_from(
    [
        UserPromptPart("and?", timestamp=MOMENT),
        ToolAvailabilityDeltaPart(tools_added=["sell"]),
        SystemPromptPart("be brief"),
    ]
)
broken = st.lists(
    st.lists(
        st.builds(ToolReturnPart, names, st.just("done"), ids, timestamp=st.just(MOMENT)) | spoken, max_size=4
    ).map(asked)
    | st.lists(
        st.builds(ToolCallPart, names, arguments, ids)
        | st.builds(NativeToolCallPart, names, st.none(), ids)
        | st.just(TextPart("let me see")),
        max_size=4,
    ).map(lambda parts: ModelResponse(parts, timestamp=MOMENT)),
    max_size=8,
)
"""Conversations as a crash, a lost row or a bad provider may leave them: ids repeat, calls and results are anywhere."""


def call(name: str, number: str, **args: Any) -> ToolCallPart:
    """Return a tool call with an id."""
    return ToolCallPart(name, args, number)


def gave(number: str, content: Any = "done", name: str = "read", **more: Any) -> Any:
    """Return a result for a call with an id."""
    return ToolReturnPart(name, content, number, timestamp=MOMENT, **more)


def said(text: str) -> ModelRequest:
    """Return what a person says."""
    return ModelRequest([UserPromptPart(text, timestamp=MOMENT)])


def answer(*parts: Any) -> ModelResponse:
    """Return what a model answers: texts and calls."""
    return ModelResponse([TextPart(part) if isinstance(part, str) else part for part in parts], timestamp=MOMENT)


def turns(count: int, output: Any = "done", calls: int = 1) -> list[ModelMessage]:
    """Return a conversation of a prompt and so many turns of a model that calls tools, each with its results."""
    found: list[ModelMessage] = [said("mend the roof")]
    for turn in range(count):
        numbers = [f"{turn}.{n}" for n in range(calls)]
        found.append(answer(*(call("read", number, page=turn) for number in numbers)))
        found.append(ModelRequest([gave(number, output) for number in numbers]))
    return found


def complaint(history: Sequence[ModelMessage]) -> str:
    """Return why a strict provider refuses a history, or nothing.

    After an answer with calls come their results, one for each, before anything else; no result stands elsewhere.
    """
    due: Counter[str] = Counter()
    for place, message in enumerate(history):
        if isinstance(message, ModelResponse):
            if due:
                return f"message {place}: no result for {sorted(due)}"
            due = Counter(part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart))
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                if not due[part.tool_call_id]:
                    return f"message {place}: a result for {part.tool_call_id}, which waits for none"
                due[part.tool_call_id] -= 1
                due += Counter()
            elif due and not isinstance(part, ToolAvailabilityDeltaPart):
                return f"message {place}: {part.part_kind} before the results for {sorted(due)}"
    return f"no result for {sorted(due)}" if due else ""
