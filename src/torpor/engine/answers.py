"""What people say, checked against what was asked, before it is durable: a wrong answer leaves the wait open (G10)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from torpor.core.schema import Misfit, misfit, same
from torpor.errors import UsageError
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def check_answer(name: str, asked: bytes, value: Any) -> None:
    """Raise UsageError, with the path and the allowed values, if a value is no answer to what an entry asks."""
    content = values.exact(asked)
    wrong = _wrong(content if isinstance(content, dict) else {}, values.exact(values.encode(value, path="answer")))
    if wrong is not None:
        raise UsageError(f"{name} still waits: {wrong}", hint=f"torpor inbox {name}   shows what it asks for")


def _wrong(content: Mapping[str, Any], given: Any) -> Misfit | None:
    choices = content.get("choices")
    if choices is not None:
        fits = any(same(given, choice) for choice in choices)
        return None if fits else Misfit("", f"{json.dumps(given, ensure_ascii=False)} is not a choice", tuple(choices))
    return misfit(given, content["schema"]) if content.get("schema") is not None else None


def answer_of(content: Any, text: str) -> Any:
    """Return what a person meant who typed a text: the text itself if that fits, else what it says as JSON.

    To a question without choices and schema a text is a text.
    """
    asked = content if isinstance(content, dict) else {}
    if asked.get("choices") is None and asked.get("schema") is None:
        return text
    found = list(_meanings(text))
    return next((value for value in found if _wrong(asked, value) is None), found[0])


def _meanings(text: str) -> Iterator[Any]:
    with suppress(ValueError, RecursionError):  # no JSON, or more of it than can be read
        yield json.loads(text)
    yield text


def edited(name: str, asked: bytes, edits: Mapping[str, Any]) -> bytes:
    """Return what an approval shows as a person edited it. Raises UsageError, with the path, if that cannot be."""
    content = values.exact(asked)
    if not isinstance(content, dict) or not content.get("editable"):
        raise UsageError(
            f"{name} cannot be edited: its program did not allow it", hint="approve it, or deny it and say why"
        )
    schema = content.get("schema")
    try:
        body, given = values.edited(asked, "show", edits, free=schema is not None)
    except UsageError as error:
        raise UsageError(f"{name} still waits: {error.message}", hint=error.hint) from None
    wrong = misfit(given, schema) if schema is not None else None
    if wrong is not None:
        raise UsageError(f"{name} still waits: {wrong}", hint=f"torpor inbox {name}   shows what it asks for")
    return body
