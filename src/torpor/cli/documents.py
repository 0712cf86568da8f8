"""The JSON of the command line: exactly one document on standard output, moments in UTC, field names as in the client."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields, is_dataclass
from typing import IO, Any

from torpor import clock
from torpor.errors import TorporError

_RAW = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What JSON need not escape, but would drive a terminal or cannot be written."""


def document(value: Any) -> Any:
    """Return a record as JSON: fields that end in `_at` become ISO 8601 in UTC. What it carries of users stays as it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _field(field.name, getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _field(name, inner) for name, inner in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [document(inner) for inner in value]
    return value


def _field(name: str, value: Any) -> Any:
    if (name == "at" or name.endswith("_at")) and isinstance(value, int):
        return iso(value)
    return document(value)


def iso(at: int) -> str:
    """Return a moment as `2026-11-29T09:12:04.123456Z`."""
    return clock.as_datetime(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def write(value: Any, out: IO[str] | None = None, *, line: bool = False) -> None:
    """Write one document; with `line` on a single line, for a stream of them."""
    stream = sys.stdout if out is None else out
    utf8 = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    text = json.dumps(document(value), ensure_ascii=not utf8, indent=None if line else 2)
    stream.write(_RAW.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
    stream.flush()


def problem(error: TorporError) -> dict[str, Any]:
    """Return what an error says, for programs."""
    return {"type": type(error).__name__, "title": error.message, "hint": error.hint, "exit_code": error.exit_code}
