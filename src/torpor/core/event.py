"""Events: which wait an event satisfies. Fields are compared as people see them, so a UUID equals its text.

A wait names an event and, if it likes, top-level fields with the values they must have. Its row carries one number, the
match: of the name alone, or of the name and *one* field with its value. A publisher knows every match its event can
have, one for the name and one per field, so waits are found by an index; what else a wait asks for is compared afterwards.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_FIELDS = 64
"""An event has so many top-level fields at most: each is a match to be looked for."""
MOST_BYTES = 32 * 1024
"""An event's value is at most so large: every run that it wakes gets a copy."""
KEPT_SECONDS = 24 * 3600.0
"""So long an event is kept for waits that are registered later."""


class NewEvent(NamedTuple):
    """An event to be kept until `expires_at`, with every match it can have; an equal name and key is the same event."""

    name: str
    body: bytes
    matches: Sequence[int]
    expires_at: int
    key: str | None = None


class EventRow(NamedTuple):
    """An event. `reached` is the highest run its fan-out came to, None once it is through; `taken` counts who got it.

    `body` is None when it expired and had reached nobody.
    """

    id: int
    at: int
    expires_at: int
    reached: int | None
    taken: int
    name: str
    key: str | None
    body: bytes | None


def prints_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return each field's value as a text that is equal for equal values. `fields` are JSON."""
    return {name: _print(value) for name, value in fields.items()}


def _print(value: Any) -> str:
    return json.dumps(_even(value), sort_keys=True, separators=(",", ":"))


def _even(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 40.0 is 40
    if isinstance(value, list):
        return [_even(part) for part in value]
    return {name: _even(part) for name, part in value.items()} if isinstance(value, dict) else value


def wanted_match(name: str, where: Mapping[str, str]) -> int:
    """Return the match of a wait: of its first field in the order of names, or of the event's name alone."""
    first = min(where, default=None)
    return _number(name) if first is None else _number(name, first, where[first])


def matches_of(name: str, prints: Mapping[str, str]) -> list[int]:
    """Return every match an event can have, in order."""
    return sorted({_number(name), *(_number(name, field, value) for field, value in prints.items())})


def fits(where: Mapping[str, str], prints: Mapping[str, str]) -> bool:
    """Whether an event has all that a wait asks for."""
    return all(prints.get(field) == value for field, value in where.items())


def signal_name(name: str) -> str:
    """Return the reserved name under which an event lies in a run's inbox."""
    return f"~event:{name}"


def _number(*parts: str) -> int:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8, person=b"torpor.event").digest(), signed=True)
