"""What a request to a model comes down to: two requests that say the same are equal, wherever and whenever they are made.

A request is what the model is **offered** (instructions, tools, the form of its answer) and the messages. Left out is all
that differs between two runs that say the same: times, ids of runs, answers and calls, usage, what a provider remembers by.
A result is known by the place of its call in the answer before it. Requests that follow each other are one, as providers
get them. Model settings are no part of it.

No secret that a worker of this process resolved is in what comes out of here (G15): it is struck before anything is digested,
so a tape that was recorded with one key is found again with another.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest, ModelResponse

from torpor.agent.transcript import mended, stored
from torpor.worker.bodies import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_ai import ToolDefinition
    from pydantic_ai.models import ModelRequestParameters

_CHANCE = frozenset(
    {
        *("timestamp", "id", "tool_call_id", "signature", "metadata"),
        *("provider_name", "provider_url", "provider_details", "provider_response_id"),
    }
)
"""Fields of a part that say nothing a model would read."""
SHOWN_LETTERS = 2000
"""So much of a message is written for people; all of it counts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, reduced. `newest` is its last message in words, a line for each part."""

    offer: dict[str, Any]
    offered: str
    """The digest of the offer."""
    messages: tuple[str, ...]
    """A digest of each message, in order."""
    newest: tuple[str, ...]


def asked_of(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> Asked:
    """Return what a request comes down to. Raises UnstorableValue for a message that has no JSON form."""
    offer = _offer(messages, parameters)
    reduced = [struck(one) for one in _reduced(messages)]
    newest = tuple(in_words(part) for part in reduced[-1]["parts"]) if reduced else ()
    return Asked(offer, digest(offer), tuple(digest(one) for one in reduced), newest)


def digest(value: Any) -> str:
    """Return a short name of a JSON value by its content."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(mended(text).encode()).hexdigest()[:16]


def struck(value: Any) -> Any:
    """Return a JSON value without any secret that was resolved here, in its texts and its keys."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {without_secrets(key): struck(item) for key, item in value.items()}
    return [struck(item) for item in value] if isinstance(value, list | tuple) else value


def _offer(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> dict[str, Any]:
    """Return what the model is offered besides the messages."""
    said = InstructionPart.join(parameters.instruction_parts or [])
    if said is None:
        newest = takewhile(lambda one: not isinstance(one, ModelResponse), reversed(messages))
        said = next((one.instructions for one in newest if isinstance(one, ModelRequest) and one.instructions), None)
    output: Any = dict(_tools(parameters.output_tools))
    if parameters.output_object is not None:  # how it is asked for, pydantic-ai settles in the course of a run
        output = parameters.output_object.json_schema
    found: dict[str, Any] = {
        "instructions": said or "",
        "tools": dict(_tools(parameters.function_tools)),
        "output": output,
    }
    if parameters.native_tools:
        found["native_tools"] = sorted(tool.kind for tool in parameters.native_tools)
    without: dict[str, Any] = struck(found)
    return without


def _tools(tools: Iterable[ToolDefinition]) -> Iterator[tuple[str, dict[str, Any]]]:
    for tool in sorted(tools, key=lambda tool: tool.name):
        yield tool.name, {"description": tool.description or "", "schema": tool.parameters_json_schema}


def _reduced(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    for message in messages:
        tree = stored(message)
        parts = [_part(part, places) for part in tree["parts"]]
        if isinstance(message, ModelResponse):
            calls = [part["tool_call_id"] for part in tree["parts"] if part["part_kind"] == "tool-call"]
            places = {name: place for place, name in enumerate(calls)}
        elif found and found[-1]["kind"] == tree["kind"]:
            found[-1]["parts"] += parts
            continue
        found.append({"kind": tree["kind"], "parts": parts})
    return found


def _part(part: dict[str, Any], places: dict[str, int]) -> dict[str, Any]:
    """Return the fields of a part that count; what is empty does not, so a later pydantic-ai may add fields."""
    kept = {
        name: value for name, value in part.items() if name not in _CHANCE and value not in (None, "", [], {}, False)
    }
    if part["part_kind"].endswith("tool-return"):
        kept.setdefault("outcome", "success")  # a default, which is not stored; tapes are older than that
    if part["part_kind"] == "tool-call":
        kept["args"] = _arguments(part.get("args"))
    elif (place := places.get(part.get("tool_call_id", ""))) is not None:
        kept["call"] = place
    return kept


def _arguments(args: Any) -> Any:
    """Return a call's arguments as the value they are; broken ones as their text."""
    if not isinstance(args, str):
        return args
    try:
        return json.loads(args)
    except ValueError:
        return args


def in_words(part: dict[str, Any]) -> str:
    """Return a part of a message as people read it."""
    kind, tool = part["part_kind"], part.get("tool_name", "")
    content = part.get("content", "")
    if kind == "user-prompt":
        said = f"user: {_content(content)}"
    elif kind == "tool-return":
        outcome = part.get("outcome", "success")
        said = f"{tool} {'gave' if outcome == 'success' else outcome}: {_content(content)}"
    elif kind == "tool-call":
        said = f"calls {tool}({_content(part.get('args'))})"
    elif kind in {"system-prompt", "text", "thinking"}:
        said = f"{kind.partition('-')[0]}: {_content(content)}"
    else:
        said = f"{kind}: {_content({name: value for name, value in part.items() if name != 'part_kind'})}"
    return cut(said, SHOWN_LETTERS)


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content and all(isinstance(one, str) for one in content):
        return " ".join(content)
    return json.dumps(content, ensure_ascii=False)


def cut(text: str, letters: int) -> str:
    """Return a text of at most so many letters, and how many it had."""
    return text if len(text) <= letters else f"{text[:letters]}… ({len(text):,} letters)"
