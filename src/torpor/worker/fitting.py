"""What an answer or an edit must fit: a JSON schema of the author's, or a type, whose schema pydantic knows.

The schema travels with the question, so that whoever takes the answer can check it; what only the class knows (its
validators) is checked when the answer is consumed.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from torpor.core.schema import misfit, unchecked
from torpor.errors import UsageError
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Callable


def schema_of(wanted: Any) -> dict[str, Any] | None:
    """Return the JSON schema of what is wanted. Raises UsageError for a type without one, or one that cannot be checked."""
    if wanted is None:
        return None
    schema: Any = wanted
    if not isinstance(wanted, dict):
        from pydantic import PydanticUserError, TypeAdapter

        try:
            schema = TypeAdapter(wanted).json_schema()
        except PydanticUserError as error:
            message = f"an answer cannot be a {name_of(wanted)}: {error.message}"
            raise UsageError(message, hint="schema=int, a pydantic model, or a JSON schema") from error
    unknown = unchecked(schema)
    if unknown is not None:
        message = f"the schema says {unknown}, which torpor does not check"
        raise UsageError(message, hint="leave it out, and check it in a step")
    found: dict[str, Any] = schema
    return found


def name_of(wanted: Any) -> str:
    """Return what a type is called."""
    return str(getattr(wanted, "__qualname__", wanted))


def fitted(value: Any, wanted: Any) -> Any:
    """Return an answer as a value of the type that is wanted. Raises UsageError with the path of what does not fit."""
    if wanted is None:
        return value
    if isinstance(wanted, dict):
        wrong = misfit(values.exact(values.encode(value)), wanted)
        if wrong is not None:
            raise UsageError(str(wrong))
        return value
    from pydantic import TypeAdapter

    return _checked(TypeAdapter(wanted).validate_python, value)


def refit(value: Any, wanted: Any) -> Any:
    """Return what was shown as a person edited it, of the type it had, after its class has seen it. Raises UsageError."""
    kind = type(value) if _is_record(value) else None
    if kind is None and (wanted is None or isinstance(wanted, dict)):
        return value
    from pydantic import TypeAdapter

    bare = _bare(value)
    if kind is not None:
        value = _checked(TypeAdapter(kind).validate_python, bare)
    if wanted is not None and not isinstance(wanted, dict) and wanted is not kind:
        _checked(TypeAdapter(wanted).validate_python, bare)
    return value


def _checked(check: Callable[[Any], Any], value: Any) -> Any:
    from pydantic import ValidationError

    try:
        return check(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = f"{place}{': ' if place else ''}{first['msg']}"
        raise UsageError(message) from error


def _is_record(value: Any) -> bool:
    return _is_model(value) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def _is_model(value: Any) -> bool:
    main = sys.modules.get("pydantic.main")
    return main is not None and isinstance(value, main.BaseModel)


def _bare(value: Any) -> Any:
    """Return a value without its classes, for them to make it anew; what they hold keeps its own type."""
    if _is_model(value):
        return {name: _bare(item) for name, item in {**value.__dict__, **(value.__pydantic_extra__ or {})}.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _bare(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, dict):
        return {name: _bare(item) for name, item in value.items()}
    return [_bare(item) for item in value] if type(value) is list else value
