"""`decode`: JSON as it is if it has no tag, else each tag's own reader, from the inside out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from torpor.errors import SchemaMismatch, StoreCorrupt, UsageError
from torpor.store.values.containers import CONTAINERS
from torpor.store.values.form import TAG, UNREADABLE, Json, Node, Read
from torpor.store.values.models import read_model
from torpor.store.values.records import read_dataclass, read_enum, read_flag, read_namedtuple
from torpor.store.values.scalars import SCALARS
from torpor.store.values.spoken import read_spoken

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError

    from torpor.store.values.names import Types

_TAG_BYTES = b'"$"'
_FIRST_PRINTABLE = 0x20
_SHOWN_LETTERS = 60
MISFIT = "the input does not fit"
"""How the refusal of an input begins that does not fit the annotation of its state."""
_JSON_LIKE = ("int", "float", "str", "dict")  # what a client may send as well: it fits no type of the program yet
_SIMPLE: dict[str, Callable[[Node, Read], object]] = {tag.name: tag.read for tag in (*SCALARS, *CONTAINERS)}
_CLASSES: dict[str, Callable[[Node, Read, Types | None], object]] = {
    "enum": read_enum,
    "flag": read_flag,
    "namedtuple": read_namedtuple,
    "dataclass": read_dataclass,
    "model": read_model,
    "text": read_spoken,
}


def decode(body: bytes, *, hint: object = None, types: Types | None = None) -> object:
    """The value that `encode` made `body` of.

    `types` maps a recorded `module:Qualname` to a class and is asked before the imported modules. `hint` is an annotation
    that gives its types to a body that holds JSON only, which is what a person or a client sends; give none for a value that
    code wrote, it comes back as it was.

    Raises `UsageError` for a class that is not known here, one that changed so that a field would be lost, or input that
    does not fit `hint`; `StoreCorrupt` for bytes that are no body; `SchemaMismatch` for a newer form.
    """
    tree = parse(body)
    if _TAG_BYTES not in body:
        if hint is None or hint is type(tree):  # what already is of that type needs no pydantic, which is slow to load
            return tree
        return _fitted(tree, hint, body)
    reader = _Reader(types)
    value = reader.read(tree)
    return value if hint is None or reader.met_type else _fitted(value, hint)


def parse(body: bytes) -> Json:
    """The JSON of a body, tags and all."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if body and body[0] < _FIRST_PRINTABLE:
            raise SchemaMismatch(
                f"a stored value begins with byte {body[0]}, a form this torpor does not read",
                hint="update torpor: the value was written by a newer one",
            ) from None
        raise StoreCorrupt(f"a stored value of {len(body)} bytes is no JSON: {error}", hint="torpor doctor") from None


class _Reader:
    """One reading. Lists and objects are changed in place: they are fresh from the parser."""

    __slots__ = ("_types", "met_type")

    def __init__(self, types: Types | None) -> None:
        self._types = types
        self.met_type = False

    def read(self, node: Json) -> object:
        kind = type(node)
        if kind is dict:
            tag = node.get(TAG)
            if tag is not None:
                return self._tagged(tag, node)
            for key, item in node.items():
                if type(item) is dict or type(item) is list:
                    node[key] = self.read(item)
        elif kind is list:
            for index, item in enumerate(node):
                if type(item) is dict or type(item) is list:
                    node[index] = self.read(item)
        return node

    def _tagged(self, tag: str, node: Node) -> object:
        self.met_type = self.met_type or tag not in _JSON_LIKE
        try:
            simple = _SIMPLE.get(tag)
            if simple is not None:
                return simple(node, self.read)
            if tag in _CLASSES:
                return _CLASSES[tag](node, self.read, self._types)
        except UNREADABLE as error:
            raise StoreCorrupt(f"a stored {tag} cannot be read: {error!r}", hint="torpor doctor") from error
        raise SchemaMismatch(
            f"a stored value has the tag {tag!r}, which this torpor does not know",
            hint="update torpor: the value was written by a newer one",
        )


def _fitted(value: object, hint: Any, body: bytes | None = None) -> object:
    if hint is Any or hint is object:
        return value
    from pydantic import TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[object] = TypeAdapter(hint)
        return adapter.validate_python(value) if body is None else adapter.validate_json(body)
    except ValidationError as error:
        raise UsageError(
            f"{MISFIT} {getattr(hint, '__name__', hint)}: {_first_detail(error)}",
            hint="a started run keeps its input: torpor cancel it, then torpor start with an input that fits",
        ) from error


def _first_detail(error: ValidationError) -> str:
    """Return the first complaint in one line, with the place and what was there: `n: Field required, got {'m': 2}`."""
    first, *others = error.errors(include_url=False)
    place = ".".join(str(part) for part in first["loc"])
    given = repr(first["input"])
    shown = given if len(given) <= _SHOWN_LETTERS else f"{given[:_SHOWN_LETTERS]}..."
    more = f" (and {len(others)} more)" if others else ""
    return f"{place}{': ' if place else ''}{first['msg']}, got {shown}{more}"
