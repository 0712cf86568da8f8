"""The transcript: how a message is stored and read, and how its tool calls are kept in order.

**Storing.** A message is stored as pydantic-ai's own JSON form of it, less what is a default anyway, with the version that
wrote it. No class of the author's is named in it, so a transcript can be read for as long as pydantic-ai can. Reading gives
the message that was written (G14). What JSON cannot say *inside* a tool's result, metadata or arguments comes back as the
JSON that a model is sent for it: a tuple as a list, a pydantic model as a dict, nan as None, an image as a `BinaryImage`.
Since a turn begins from what was stored, models are always sent that form. Half of a surrogate pair, which no provider can
be sent, is stored as U+FFFD (`mended`; in a key
as three of them). What has no JSON form at all is refused, with the path of the part.

**Tool calls.** Providers refuse a request in which a call has no result or two, a result has no call, or results stand
behind other content. Their ids may be empty or repeat, so an id is made where none can be trusted (`named`), and a history
is put right before it is sent (`answered`):

* A result answers the oldest open call with its id; where several calls of an answer share that id, one of the same tool. A
  result that finds no such call is an orphan or a duplicate.
* A call whose id is used again by a later answer is closed then: what comes with that id belongs to the later one.
* A call that no result answers is open: `unanswered` lists it, `answered` gives it one that says what is known.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_type_hints

import orjson
from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.messages import (
    SYNTHESIZED_TOOL_RETURN_METADATA_KEY,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.usage import RequestUsage

from torpor.errors import SchemaMismatch, StoreCorrupt, UnstorableValue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

WRITER = "pydantic_ai"
"""The key under which a stored message says which version of pydantic-ai wrote it."""
_VERSION = version("pydantic-ai-slim")
_USAGE_FIELDS = frozenset(field.name for field in dataclasses.fields(RequestUsage))
_PARTS: Any = {0: {"parts"}}
_PLAIN = frozenset({str, bool, int, float})
_ANY: TypeAdapter[Any] = TypeAdapter(Any)

Result: TypeAlias = Any
"""A part that answers a call: a ToolReturnPart, or the RetryPromptPart of an older pydantic-ai that names a tool."""


# Storing -------------------------------------------------------------------------------------------------------------
def stored(message: ModelMessage) -> dict[str, Any]:
    """Return a message as it is stored: JSON, with the version of its writer.

    Raises `UnstorableValue` with the path of the part that has no JSON form, or would not come back.
    """
    try:
        tree = _written(message)
    except Exception as error:  # noqa: BLE001 - serializers of the author's own classes may raise anything
        tree = _odd(message, error)
    for name in [name for name, value in tree.items() if value is None]:
        del tree[name]
    _leave_out(tree, type(message))
    parts: Sequence[Any] = message.parts
    for part, node in zip(parts, tree["parts"], strict=True):
        _leave_out(node, type(part))
    if "usage" in tree:
        tree["usage"] = {name: n for name, n in tree["usage"].items() if n or name not in _USAGE_FIELDS}
    tree[WRITER] = _VERSION
    try:
        orjson.dumps(tree)
    except TypeError:  # an int beyond 64 bit, which may stay, or half of a surrogate pair
        tree = mended(tree)
    return tree


def _written(message: ModelMessage) -> dict[str, Any]:
    """Return what `ModelMessagesTypeAdapter` makes of a message, in half the time: it asks for each part what that is."""
    [tree] = ModelMessagesTypeAdapter.dump_python([message], mode="json", warnings="error", exclude=_PARTS)
    tree["parts"] = [_written_part(part) for part in message.parts]
    return tree  # type: ignore[no-any-return]  # a list of messages is a list of objects


def _written_part(part: Any) -> dict[str, Any]:
    kind: Any = type(part)
    [node] = _parts_adapter(kind).dump_python([part], mode="json", warnings="error")
    return node  # type: ignore[no-any-return]  # a list of parts is a list of objects


@lru_cache(maxsize=256)
def _parts_adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the adapter for parts of a class, with the configuration of `ModelMessagesTypeAdapter`."""
    return TypeAdapter(list[kind], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))


def read(one: Any) -> ModelMessage:
    """Return the message that `stored` made this of.

    Raises `SchemaMismatch` if another version of pydantic-ai wrote what this one cannot read, `StoreCorrupt` if it is none.
    """
    if not isinstance(one, dict) or WRITER not in one:
        message = f"a stored message is {type(one).__name__} without its writer's version"
        raise StoreCorrupt(message, hint="torpor doctor")
    writer = one[WRITER]
    try:
        tree = {name: node for name, node in one.items() if name != WRITER}
        [found] = ModelMessagesTypeAdapter.validate_python([tree])
    except ValueError as error:
        if writer == _VERSION:
            raise StoreCorrupt(f"a stored message cannot be read: {error}", hint="torpor doctor") from error
        raise SchemaMismatch(
            f"pydantic-ai {writer} wrote a message that {_VERSION} cannot read: {error}",
            hint=f"install pydantic-ai-slim {writer} or a newer one",
        ) from error
    return found


def mended(value: Any) -> Any:
    """Return text, or JSON with text in it, in which U+FFFD stands for each half of a surrogate pair that has no other half."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    return [mended(item) for item in value] if isinstance(value, list) else value


def _leave_out(node: dict[str, Any], kind: Any) -> None:
    """Take what is a default of its class out of a message or a part."""
    for name, default in _defaults(kind):
        if name in node and node[name] == default and type(node[name]) is type(default):
            del node[name]


@lru_cache(maxsize=256)
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a message or part that need not be stored if they have these values.

    A field that can have one value only says what the part is (`part_kind`, and `tool_name` of tools that are pydantic-ai's
    own), so it stays: it is read before the class is known.
    """
    found = {field.name: field.default for field in dataclasses.fields(kind)}
    try:
        hints = get_type_hints(kind)
    except Exception:  # noqa: BLE001 - names that are not there at run time: then what stays is what cannot be told apart
        hints = {}
    single = {name for name in found if name not in hints or len(get_args(hints[name]) or "ab") == 1}
    plain = {
        name: value for name, value in found.items() if value is None or (type(value) in _PLAIN and name not in single)
    }
    return tuple(plain.items())


def _odd(message: ModelMessage, error: Exception) -> Any:
    """Return the form of a message that is not typed as declared, if it comes back all the same."""
    try:
        [tree] = ModelMessagesTypeAdapter.dump_python([message], mode="json", warnings="none")
        [again] = ModelMessagesTypeAdapter.validate_python([tree])
    except Exception:  # noqa: BLE001 - why it cannot be stored was said by the first error
        raise _refusal(message, error) from error
    if again != message:
        raise _refusal(message, error)
    return tree


def _refusal(message: ModelMessage, error: Exception) -> UnstorableValue:
    path, culprit = "message", error
    for place, part in enumerate(message.parts):
        try:
            _written_part(part)
        except Exception as raised:  # noqa: BLE001 - the same as above
            path, culprit = f"message.parts[{place}]", raised
            for field in dataclasses.fields(part):
                inner = _bad_place(getattr(part, field.name), f"{path}.{field.name}")
                if inner:
                    path = inner
                    break
            break
    return UnstorableValue(
        f"{path}: this has no form in which a message can be kept: {culprit}",
        path=path,
        hint="let the tool return text, numbers, lists, dicts, dataclasses or pydantic models",
    )


def _bad_place(value: object, path: str) -> str:
    """Return the path of the innermost part that has no JSON form, or nothing."""
    try:
        _ANY.dump_python(value, mode="json")
    except Exception:  # noqa: BLE001 - the same as above
        inside: Iterable[tuple[str, object]] = ()
        if isinstance(value, dict):
            inside = ((f"{path}.{key}", item) for key, item in value.items())
        elif isinstance(value, list | tuple):
            inside = ((f"{path}[{n}]", item) for n, item in enumerate(value))
        try:
            return next((found for place, item in inside if (found := _bad_place(item, place))), path)
        except RecursionError:  # it contains itself
            return path
    return ""


# Tool calls ----------------------------------------------------------------------------------------------------------
def named(response: ModelResponse, turn: int, taken: Collection[str]) -> ModelResponse:
    """Return an answer in which every tool call has an id of its own.

    An id that is empty, that is among `taken` (the ids of the conversation so far) or that stands twice in this answer gives
    way to `torpor_<turn>_<position>`, with the call's position among the answer's calls. Nothing else changes.
    """
    parts = list(response.parts)
    calls = [(place, part) for place, part in enumerate(parts) if isinstance(part, ToolCallPart)]
    given = {call.tool_call_id for _, call in calls}
    seen: set[str] = set()
    changed = False
    for position, (place, call) in enumerate(calls):
        name = call.tool_call_id
        if not name or name.isspace() or name in seen or name in taken:
            name = _fresh(f"torpor_{turn}_{position}", lambda tried: tried in given or tried in seen or tried in taken)
            parts[place] = replace(call, tool_call_id=name)
            changed = True
        seen.add(name)
    return replace(response, parts=parts) if changed else response


def _fresh(name: str, is_taken: Callable[[str], bool]) -> str:
    """Return the name, or the first of its continuations that nobody has: a provider may repeat ours."""
    tried, count = name, 1
    while is_taken(tried):
        count += 1
        tried = f"{name}_{count}"
    return tried


def is_result(part: object) -> bool:
    """Whether a part answers a call of a tool that torpor runs. A provider's own tools answer inside the response."""
    if isinstance(part, ToolReturnPart):
        return True
    return getattr(part, "part_kind", "") == "retry-prompt" and getattr(part, "tool_name", None) is not None


@dataclass(slots=True, eq=False)
class _Paired:
    """A call and what answers it."""

    call: ToolCallPart
    result: Result | None = None


def _paired(messages: Sequence[ModelMessage]) -> dict[int, list[_Paired]]:
    """Return the calls of each response in order, by the response's place, with the results that answer them."""
    found: dict[int, list[_Paired]] = {}
    opened: dict[str, list[_Paired]] = {}
    for place, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            pairs = [_Paired(part) for part in message.parts if isinstance(part, ToolCallPart)]
            if not pairs:
                continue
            found[place] = pairs
            for pair in pairs:
                opened[pair.call.tool_call_id] = []
            for pair in pairs:
                opened[pair.call.tool_call_id].append(pair)
            continue
        for part in message.parts:
            if is_result(part) and (answers := _answered_by(part, opened.get(_id(part), []))):
                answers.result = part
    return found


def _answered_by(part: Any, sharing: list[_Paired]) -> _Paired | None:
    """Return the call that a result answers, of those that share its id in the last answer that used it.

    A result of another tool is only believed where the id leaves no choice: else what it answers would depend on the order of
    the results, and a history that was put right would be changed again the next time.
    """
    return next(
        (pair for pair in sharing if pair.result is None and (len(sharing) == 1 or pair.call.tool_name == _tool(part))),
        None,
    )


def _id(part: Any) -> str:
    return str(part.tool_call_id)


def _tool(part: Any) -> str:
    return str(part.tool_name)


def unanswered(messages: Sequence[ModelMessage]) -> list[ToolCallPart]:
    """Return the calls that no result answers, in their order."""
    return [pair.call for pairs in _paired(messages).values() for pair in pairs if pair.result is None]


def answered(messages: Sequence[ModelMessage], said: Callable[[ToolCallPart], str]) -> list[ModelMessage]:
    """Return a history in which each call has exactly one result, right after the answer that made it.

    `said(call)` is what the model is told about a call that has none; it is marked as pydantic-ai marks what it makes up
    itself, its outcome is `interrupted`. Results stand in the order of their calls, ahead of what else was said then; a
    late one moves to its call; duplicates and orphans are dropped, as is a request that held nothing else. Messages that
    are right already stay the very objects they are, and doing it twice changes nothing.
    """
    pairs_of = _paired(messages)
    right: list[ModelMessage] = []
    due: list[Result] = []
    for place, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            if due:
                right.append(ModelRequest(parts=due))
            right.append(message)
            due = [_result(message, pair, said) for pair in pairs_of.get(place, ())]
        elif _right(message, due):
            right.append(message)
            due = []
        else:
            rest = [part for part in message.parts if not is_result(part)]
            if due or rest:
                right.append(replace(message, parts=[*due, *rest]))
            due = []
    if due:
        right.append(ModelRequest(parts=due))
    return right


def _result(response: ModelResponse, pair: _Paired, said: Callable[[ToolCallPart], str]) -> Result:
    """Return the result of a call, made up if there is none: with the answer's time, so that it is always the same."""
    if pair.result is not None:
        return pair.result
    return ToolReturnPart(
        pair.call.tool_name,
        said(pair.call),
        pair.call.tool_call_id,
        tool_kind=pair.call.tool_kind,
        metadata={SYNTHESIZED_TOOL_RETURN_METADATA_KEY: True},
        timestamp=response.timestamp,
        outcome="interrupted",
    )


def _right(request: ModelRequest, due: list[Result]) -> bool:
    """Whether a request begins with just the results that are due. Notes about tools that came in may stand among them."""
    parts = [part for part in request.parts if not isinstance(part, ToolAvailabilityDeltaPart)]
    head, tail = parts[: len(due)], parts[len(due) :]
    return (
        len(head) == len(due)
        and all(one is other for one, other in zip(head, due, strict=True))
        and not any(map(is_result, tail))
    )
