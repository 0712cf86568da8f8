"""What answers a question: every choice, or a value that fits, to be pasted, and in words what it is."""

from __future__ import annotations

import json
import shlex
from typing import Any

_MANY = 10
_MOST_CHOICES = 8
_BOUNDS = (
    ("minimum", "{} or more"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
)


def answers(wait: str, content: Any) -> list[tuple[str, str]]:
    """Return the commands that answer a question, each with what it means."""
    asked = content if isinstance(content, dict) else {}
    choices = asked.get("choices") or ()
    if choices:
        said = [f"torpor answer {wait} {shlex.quote(_text(choice))}" for choice in choices[:_MOST_CHOICES]]
        left = len(choices) - len(said)
        return [(one, f"or one of {left} more" if left and one is said[-1] else "") for one in said]
    schema = asked.get("schema")
    if schema is None:
        return [(f"torpor answer {wait} TEXT", "")]
    return [(f"torpor answer {wait} {_value(schema)}", words(schema))]


def words(schema: Any) -> str:
    """Return in words what fits a schema; empty where only the schema itself says it."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind in {"integer", "number"}:
        bounds = [said.format(schema[name]) for name, said in _BOUNDS if name in schema]
        return ", ".join(["a whole number" if kind == "integer" else "a number", *bounds])
    return "true or false" if kind == "boolean" else ""


def _value(schema: Any) -> str:
    """Return a value that fits, or JSON where none is to be guessed."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "boolean":
        return "true"
    bounds = [schema.get(name) for name, _ in _BOUNDS] if isinstance(schema, dict) else []
    if kind != "integer" or any(not isinstance(bound, int | None) for bound in bounds):
        return "'JSON'"
    least, above, most, below = bounds
    value = max([_MANY, *([least] if least is not None else []), *([above + 1] if above is not None else [])])
    return str(min([value, *([most] if most is not None else []), *([below - 1] if below is not None else [])]))


def _text(choice: Any) -> str:
    return choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False)
