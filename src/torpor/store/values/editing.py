"""`edited`: a body with what a person changed in it. What they left alone stays as it was, of the type it had.

A person edits JSON: a Decimal is a text there, a model an object. So the JSON they give back is laid over the body: a part
that looks as before *is* as before, and a part that changed becomes a value of the same tag, or is refused. No class is
needed for that, so it works where the program is not; whoever has the classes checks what they make of it.
"""

from __future__ import annotations

import re
from copy import deepcopy
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import orjson

from torpor.core.schema import same
from torpor.errors import UsageError
from torpor.store.values.form import TAG, UNREADABLE, Json, Node, Refused, key_step
from torpor.store.values.reading import parse
from torpor.store.values.scalars import SCALARS
from torpor.store.values.showing import exact_part
from torpor.store.values.writing import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TAGS = {tag.name: tag for tag in SCALARS}
_LISTS = frozenset({"tuple", "set", "frozenset"})
_BY_CLASS = frozenset({"enum", "flag"})
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def joined(body: bytes, **parts: bytes) -> bytes:
    """The body of an object with further fields, given as bodies."""
    return orjson.dumps({**parse(body), **{name: parse(part) for name, part in parts.items()}})


def edited(body: bytes, part: str, edits: Mapping[str, Json], *, free: bool = False) -> tuple[bytes, Json]:
    """The field `part` of a body after edits, as a body, and as the JSON that a person sees.

    `edits` are values by path (`to`, `items[0].amount`; empty for the whole). Without `free` a text stays a text and a
    number a number; with it a schema has the say. Raises UsageError with the path of what cannot be.
    """
    node = parse(body)[part]
    given = exact_part(deepcopy(node))
    for path, value in edits.items():
        given = _put(given, path, value)
    try:
        return orjson.dumps(_Laid(free=free).over(node, given)), given
    except Refused as refused:
        raise UsageError(f"{refused.path('')[1:] or 'the whole'}: {refused.reason}", hint=refused.hint) from None


def _put(given: Json, path: str, value: Json) -> Json:
    """Return JSON with a value in the place of a path. Raises UsageError if there is no such place."""
    steps = list(_steps(path))
    if not steps:
        return value
    there = given
    for step in steps[:-1]:
        there = _inside(there, step, path)
    if isinstance(there, dict):
        there[str(steps[-1])] = value
    else:
        _inside(there, steps[-1], path)
        there[int(steps[-1])] = value
    return given


def _steps(path: str) -> Iterator[str]:
    place = 0
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            raise UsageError(f"{path!r} is no path", hint="to, items[0].amount")
        place = step.end()
        yield step[1] or step[2]


def _inside(there: Json, step: str, path: str) -> Json:
    if isinstance(there, dict) and step in there:
        return there[step]
    if isinstance(there, list) and step.isdecimal() and int(step) < len(there):
        return there[int(step)]
    has = f"; there is {', '.join(there)}" if isinstance(there, dict) else ""
    raise UsageError(f"{path}: there is no {step}{has}", hint="torpor inbox WAIT   shows what can be edited")


def _kind(value: Json) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


class _Laid:
    """JSON laid over a body."""

    def __init__(self, *, free: bool) -> None:
        self._free = free
        self._in_class = 0

    def over(self, node: Json, given: Json) -> Json:
        """Return the part of a body that says `given`."""
        if same(exact_part(node), given):
            return node
        if type(node) is list and isinstance(given, list):
            return self._list(node, given)
        if type(node) is dict:
            return self._tagged(node, given) if TAG in node else self._object(node, given)
        if not self._free and node is not None and given is not None and _kind(node) != _kind(given):
            raise Refused(f"{given!r} is in the place of {node!r}", hint="keep the kind of value that was there")
        return self._fresh(given)

    def _fresh(self, given: Json) -> Json:
        return parse(encode(given, path="edit"))

    def _list(self, node: list[Json], given: list[Json]) -> list[Json]:
        laid = []
        for n, item in enumerate(given):
            try:
                laid.append(self.over(node[n], item) if n < len(node) else self._fresh(item))
            except Refused as refused:
                raise refused.under(f"[{n}]") from None
        return laid

    def _object(self, node: Node, given: Json) -> Json:
        if not isinstance(given, dict):
            if self._free:
                return self._fresh(given)
            raise Refused(f"{given!r} is in the place of an object", hint="keep the kind of value that was there")
        fresh = {name: item for name, item in given.items() if name not in node}
        if fresh and TAG in fresh:
            raise Refused(f"a field cannot be named {TAG!r} here", hint="name it otherwise")
        return {**self._fields({n: node[n] for n in given if n in node}, given), **self._fields_fresh(fresh)}

    def _fields_fresh(self, given: Node) -> Node:
        return {name: self._fresh(item) for name, item in given.items()}

    def _fields(self, node: Node, given: Node) -> Node:
        laid = {}
        for name, part in node.items():
            try:
                laid[name] = self.over(part, given[name])
            except Refused as refused:
                raise refused.under(key_step(name)) from None
        return laid

    def _tagged(self, node: Node, given: Json) -> Json:
        tag = node[TAG]
        if tag in {"model", "dataclass"}:
            return self._record(node, given)
        if tag in _LISTS and isinstance(given, list):
            return {**node, "v": self._list(node["v"], given)}
        if tag == "namedtuple" and isinstance(given, dict) and list(given) == node["n"]:
            return {**node, "v": self._list(node["v"], list(given.values()))}
        if tag == "dict" and isinstance(given, dict):
            return self._pairs(node, given)
        if tag in _BY_CLASS and self._in_class:
            return self._fresh(given)  # the class that holds it finds the member
        if tag in _TAGS:
            return self._scalar(node, given)
        raise Refused(f"a {tag} cannot be edited", hint="deny it, and let the program ask again")

    def _record(self, node: Node, given: Json) -> Json:
        """A model or a dataclass: its fields, no more and no fewer."""
        held = node["v"]
        if node[TAG] == "model" and held.keys() == {"root"}:
            return {**node, "v": {"root": self.over(held["root"], given)}}
        extra: Node = node["x"] if isinstance(node.get("x"), dict) and TAG not in node["x"] else {}
        if not isinstance(given, dict):
            raise Refused(f"{given!r} is in the place of an object", hint="keep its fields")
        if unknown := given.keys() - held.keys() - extra.keys():
            name = min(unknown)
            raise Refused("there is no such field", hint=f"its fields: {', '.join(held)}").under(f".{name}")
        if missing := [name for name in held if name not in given]:
            raise Refused("it is missing", hint="keep every field").under(f".{missing[0]}")
        self._in_class += 1
        laid = {**node, "v": self._fields(held, given)}
        if extra:
            laid["x"] = self._fields({name: part for name, part in extra.items() if name in given}, given)
        self._in_class -= 1
        if node[TAG] == "model" and "s" in node:
            changed = {name for name in held if laid["v"][name] is not held[name]}
            laid["s"] = sorted({*node["s"], *changed})
        return laid

    def _pairs(self, node: Node, given: Node) -> Json:
        parts = node["v"]
        names = [exact_part(key) for key in parts[::2]]
        shown = [name if type(name) is str else orjson.dumps(name).decode() for name in names]
        if set(shown) != set(given):
            raise Refused("the keys of this cannot be changed", hint="keep its keys")
        laid = self._fields(dict(zip(shown, parts[1::2], strict=True)), given)
        return {**node, "v": [part for key, name in zip(parts[::2], shown, strict=True) for part in (key, laid[name])]}

    def _scalar(self, node: Node, given: Json) -> Json:
        tag = _TAGS[node[TAG]]
        if tag.name == "int" and type(given) is int:
            return self._fresh(given)
        try:
            value = _read(tag.name, node, given)
            return tag.write(value, self._fresh)
        except (*UNREADABLE, UsageError, Refused):
            raise Refused(f"{given!r} is no {tag.name}", hint=f"write it as it was: {exact_part(node)!r}") from None


def _read(tag: str, node: Node, given: Json) -> Any:
    """Return the value of a tag that a person wrote as text or as a number."""
    if tag == "timedelta":
        return timedelta(seconds=given)
    if isinstance(given, bool) or not (isinstance(given, str) or (tag == "decimal" and isinstance(given, int | float))):
        raise ValueError(given)
    value: Any = _TAGS[tag].read({TAG: tag, "v": str(given)}, lambda part: part)
    if "z" in node:
        zone = ZoneInfo(node["z"])
        value = value.replace(tzinfo=zone) if value.tzinfo is None else value.astimezone(zone)
    return value
