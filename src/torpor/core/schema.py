"""JSON schema, as far as it describes an answer or an edit: what does not fit, where, and what would.

A schema comes from an author's dict or from a type (`worker.kinds`). A keyword that is not checked here is refused when
the question is asked, never ignored when it is answered: what looks checked must be checked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SILENT = frozenset(
    {
        *(
            "title",
            "description",
            "default",
            "examples",
            "format",
            "deprecated",
            "readOnly",
            "writeOnly",
            "discriminator",
        ),
        *("contentMediaType", "contentEncoding", "$schema", "$id", "$comment", "$defs", "definitions"),
    }
)
"""They say something to people and refuse nothing."""


class Misfit(NamedTuple):
    """Why a value does not fit: where (`to[0].name`, empty for the whole), what is wrong, and the values that would fit."""

    path: str
    wrong: str
    allowed: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """Say it in one line."""
        place = f"{self.path}: " if self.path else ""
        one_of = f"; allowed: {', '.join(_brief(value) for value in self.allowed)}" if self.allowed else ""
        return f"{place}{self.wrong}{one_of}"


def misfit(value: Any, schema: Any, *, root: Any = None, path: str = "") -> Misfit | None:
    """Return the first place where a JSON value does not fit a schema, or None."""
    root = schema if root is None else root
    if schema is True:
        return None
    if schema is False:
        return Misfit(path, "nothing is allowed here")
    for keyword, wanted in schema.items():
        check = _CHECKS.get(keyword)
        found = check(value, wanted, schema, root, path) if check is not None else None
        if found is not None:
            return found
    return None


def unchecked(schema: Any, path: str = "") -> str | None:
    """Return the first keyword of a schema that is not checked here, with its place; or what is no schema at all."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{path or 'the whole'} is no schema: {_brief(schema)}"
    for keyword in schema:
        if keyword not in _CHECKS and keyword not in _SILENT:
            return f"{path}{'.' if path else ''}{keyword}"
    for step, part in _parts(schema):
        found = unchecked(part, f"{path}{'.' if path else ''}{step}")
        if found is not None:
            return found
    return None


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas inside a schema."""
    for name in ("properties", "$defs", "definitions", "patternProperties"):
        for step, part in (schema.get(name) or {}).items():
            yield f"{name}.{step}", part
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for n, part in enumerate(schema.get(name) or ()):
            yield f"{name}[{n}]", part
    for name in ("items", "additionalProperties", "propertyNames", "not"):
        if name in schema:
            yield name, schema[name]


# kinds of values -----------------------------------------------------------------------------------------------------
def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_KINDS: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; true is not 1, 1.0 is."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return bool(one == other)


def _brief(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else f"{text[:60]}..."  # noqa: PLR2004 - enough to recognise it


# keywords ------------------------------------------------------------------------------------------------------------
def _type(value: Any, wanted: Any, schema: Any, _root: Any, path: str) -> Misfit | None:
    kinds = [wanted] if isinstance(wanted, str) else list(wanted)
    if any(kind in _KINDS and _KINDS[kind](value) for kind in kinds):
        return None
    if schema.get("format") == "duration" and _is_number(value):
        return None  # torpor shows a timedelta as its seconds
    return Misfit(path, f"{' or '.join(kinds)} is wanted, not {_brief(value)}")


def _enum(value: Any, wanted: Any, _schema: Any, _root: Any, path: str) -> Misfit | None:
    if any(same(value, one) for one in wanted):
        return None
    return Misfit(path, f"{_brief(value)} is not among the allowed values", tuple(wanted))


def _const(value: Any, wanted: Any, _schema: Any, _root: Any, path: str) -> Misfit | None:
    return None if same(value, wanted) else Misfit(path, f"{_brief(value)} is not allowed", (wanted,))


def _ref(value: Any, wanted: Any, _schema: Any, root: Any, path: str) -> Misfit | None:
    found = root
    for step in str(wanted).removeprefix("#/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    if found is None:
        return Misfit(path, f"the schema names {wanted}, which it does not have")
    return misfit(value, found, root=root, path=path)


def _any_of(value: Any, wanted: Any, _schema: Any, root: Any, path: str) -> Misfit | None:
    found = [misfit(value, part, root=root, path=path) for part in wanted]
    if None in found:
        return None
    wrong = [one for one in found if one is not None]
    return max(wrong, key=lambda one: len(one.path)) if wrong else Misfit(path, "nothing is allowed here")


def _one_of(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Misfit | None:
    fitting = sum(misfit(value, part, root=root, path=path) is None for part in wanted)
    if fitting > 1:
        return Misfit(path, f"{_brief(value)} fits {fitting} of the alternatives, and must fit one")
    return None if fitting else _any_of(value, wanted, schema, root, path)


def _all_of(value: Any, wanted: Any, _schema: Any, root: Any, path: str) -> Misfit | None:
    return next((bad for part in wanted if (bad := misfit(value, part, root=root, path=path)) is not None), None)


def _not(value: Any, wanted: Any, _schema: Any, root: Any, path: str) -> Misfit | None:
    return Misfit(path, f"{_brief(value)} is not allowed") if misfit(value, wanted, root=root) is None else None


def _step(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _properties(value: Any, wanted: Any, _schema: Any, root: Any, path: str) -> Misfit | None:
    if not isinstance(value, dict):
        return None
    found = (misfit(value[n], part, root=root, path=_step(path, n)) for n, part in wanted.items() if n in value)
    return next((bad for bad in found if bad is not None), None)


def _patterns(value: Any, wanted: Any, _schema: Any, root: Any, path: str) -> Misfit | None:
    if not isinstance(value, dict):
        return None
    pairs = ((name, part) for name in value for pattern, part in wanted.items() if re.search(pattern, name))
    found = (misfit(value[name], part, root=root, path=_step(path, name)) for name, part in pairs)
    return next((bad for bad in found if bad is not None), None)


def _additional(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Misfit | None:
    if not isinstance(value, dict):
        return None
    known, patterns = schema.get("properties") or {}, schema.get("patternProperties") or {}
    for name in value:
        if name in known or any(re.search(pattern, name) for pattern in patterns):
            continue
        if wanted is False:
            return Misfit(_step(path, name), "there is no such field", tuple(known))
        bad = misfit(value[name], wanted, root=root, path=_step(path, name))
        if bad is not None:
            return bad
    return None


def _names(value: Any, wanted: Any, _schema: Any, root: Any, path: str) -> Misfit | None:
    if not isinstance(value, dict):
        return None
    found = (misfit(name, wanted, root=root, path=_step(path, name)) for name in value)
    return next((bad for bad in found if bad is not None), None)


def _required(value: Any, wanted: Any, _schema: Any, _root: Any, path: str) -> Misfit | None:
    missing = [name for name in wanted if isinstance(value, dict) and name not in value]
    return Misfit(_step(path, missing[0]), "it is missing") if missing else None


def _items(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Misfit | None:
    if not isinstance(value, list):
        return None
    first = len(schema.get("prefixItems") or ())
    found = (misfit(one, wanted, root=root, path=f"{path}[{n}]") for n, one in enumerate(value) if n >= first)
    return next((bad for bad in found if bad is not None), None)


def _prefix(value: Any, wanted: Any, _schema: Any, root: Any, path: str) -> Misfit | None:
    if not isinstance(value, list):
        return None
    pairs = zip(value, wanted, strict=False)
    found = (misfit(one, part, root=root, path=f"{path}[{n}]") for n, (one, part) in enumerate(pairs))
    return next((bad for bad in found if bad is not None), None)


def _unique(value: Any, wanted: Any, _schema: Any, _root: Any, path: str) -> Misfit | None:
    if not wanted or not isinstance(value, list):
        return None
    doubled = [n for n, one in enumerate(value) if any(same(one, earlier) for earlier in value[:n])]
    return Misfit(f"{path}[{doubled[0]}]", f"{_brief(value[doubled[0]])} is there twice") if doubled else None


def _bound(fits: Callable[[Any, Any], bool], says: str) -> Callable[[Any, Any, Any, Any, str], Misfit | None]:
    def check(value: Any, wanted: Any, _schema: Any, _root: Any, path: str) -> Misfit | None:
        return Misfit(path, f"{_brief(value)} is not {says} {wanted}") if not fits(value, wanted) else None

    return check


def _sized(
    kind: type, fits: Callable[[int, int], bool], says: str
) -> Callable[[Any, Any, Any, Any, str], Misfit | None]:
    def check(value: Any, wanted: Any, _schema: Any, _root: Any, path: str) -> Misfit | None:
        if not isinstance(value, kind) or fits(len(value), wanted):  # type: ignore[arg-type]
            return None
        return Misfit(path, f"{len(value)} are there, {says} {wanted}")  # type: ignore[arg-type]

    return check


_CHECKS: dict[str, Callable[[Any, Any, Any, Any, str], Misfit | None]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "$ref": _ref,
    "required": _required,
    "properties": _properties,
    "patternProperties": _patterns,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "prefixItems": _prefix,
    "items": _items,
    "uniqueItems": _unique,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "not": _not,
    "minimum": _bound(lambda value, least: not _is_number(value) or value >= least, "at least"),
    "maximum": _bound(lambda value, most: not _is_number(value) or value <= most, "at most"),
    "exclusiveMinimum": _bound(lambda value, least: not _is_number(value) or value > least, "above"),
    "exclusiveMaximum": _bound(lambda value, most: not _is_number(value) or value < most, "below"),
    "multipleOf": _bound(lambda value, part: not _is_number(value) or value % part == 0, "a multiple of"),
    "pattern": _bound(lambda value, pattern: not isinstance(value, str) or bool(re.search(pattern, value)), "like"),
    "minLength": _sized(str, lambda there, least: there >= least, "letters, at least"),
    "maxLength": _sized(str, lambda there, most: there <= most, "letters, at most"),
    "minItems": _sized(list, lambda there, least: there >= least, "at least"),
    "maxItems": _sized(list, lambda there, most: there <= most, "at most"),
    "minProperties": _sized(dict, lambda there, least: there >= least, "at least"),
    "maxProperties": _sized(dict, lambda there, most: there <= most, "at most"),
}
