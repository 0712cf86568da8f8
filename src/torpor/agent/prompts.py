"""What people say to an agent: a prompt, or a message while it lives."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from torpor.errors import UsageError

_LETTERS = 80
NOTHING = "(an empty message)"
"""What the model hears of a message without a value."""


def checked(given: object, agent: str) -> Any:
    """Return an agent's input if it is a prompt: a text, texts and pydantic-ai's contents in a list, or nothing.

    Raises UsageError for anything else: a program that starts agents says of its own values what they mean.
    """
    if given is None or _is_prompt(given):
        return given
    shown = repr(given)
    raise UsageError(
        f"the input of {agent} is no prompt: {shown if len(shown) <= _LETTERS else f'{shown[:_LETTERS]}...'}",
        hint="a text, or a list of texts and pydantic-ai's contents: torpor start AGENT '\"please look into it\"'",
    )


def heard(value: object) -> Any:
    """Return a message as a model is told it. Whoever sent it is gone, so what is no prompt is told as its JSON."""
    if value is None:
        return NOTHING
    return value if _is_prompt(value) else to_json(value, serialize_unknown=True).decode()


def joined(prompt: Any, message: Any) -> Any:
    """Return a prompt with what was said after it."""
    if prompt is None:
        return message
    if isinstance(prompt, str) and isinstance(message, str):
        return f"{prompt}\n\n{message}"
    return [*_listed(prompt), *_listed(message)]


def _listed(content: Any) -> list[Any]:
    return list(content) if isinstance(content, list | tuple) else [content]


def _is_prompt(given: object) -> bool:
    if isinstance(given, str):
        return True
    contents = given if isinstance(given, list | tuple) else ()
    return bool(contents) and all(
        isinstance(one, str) or isinstance(getattr(one, "kind", None), str) for one in contents
    )
